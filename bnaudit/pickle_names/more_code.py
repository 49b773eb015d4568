"""Callables that bring in more code: programs, source text, bytecode, modules, other pickles."""

from __future__ import annotations

PROGRAM = "runs a program"
CODE = "runs code"
BYTECODE = "builds a function from bytecode in the pickle"
IMPORT = "imports a module of its choice"
LOADER = "loads another pickle or program"

# Each line: modules, a colon, names in all of them.
MORE_CODE = {
    PROGRAM: """
os posix nt: system popen popen2 popen3 popen4 execl execle execlp execlpe execv execve execvp execvpe _execvpe
os posix nt: spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe _spawnvef posix_spawn posix_spawnp
os posix nt: fork forkpty startfile
subprocess: Popen call run check_call check_output getoutput getstatusoutput _args_from_interpreter_flags
_posixsubprocess: fork_exec
_winapi _subprocess: CreateProcess
popen2: popen2 popen3 popen4 Popen3 Popen4
commands: getoutput getstatusoutput getstatus
pipes: Template
platform: popen _syscmd_file _syscmd_ver _syscmd_uname
uuid: _popen
pty: spawn fork
pexpect: spawn run runu
pexpect.pty_spawn: spawn
sh: Command
psutil: Popen
asyncio asyncio.subprocess: create_subprocess_exec create_subprocess_shell
asyncio.unix_events: _UnixSubprocessTransport _UnixSubprocessTransport._start _UnixSelectorEventLoop
distutils.spawn setuptools._distutils.spawn: spawn _spawn_posix _spawn_nt
distutils.core setuptools: setup run_setup
pip pip._internal pip._internal.cli.main pip._internal.main: main
ensurepip: bootstrap _run_pip
venv: create main EnvBuilder EnvBuilder.create
pydoc _pyrepl.pager: pager pipepager tempfilepager pipe_pager tempfile_pager
webbrowser: open open_new open_new_tab get register GenericBrowser BackgroundBrowser UnixBrowser Mozilla Chrome
imaplib: IMAP4_stream
mailcap: findmatch
test.support.script_helper: assert_python_ok assert_python_failure run_python_until_end spawn_python run_test_script
torch.utils.collect_env: run run_lambda run_and_read_all run_and_parse_first_match run_and_return_first_line
torch.utils.cpp_extension: load load_inline _run_ninja_build _jit_compile verify_ninja_availability
torch._inductor.codecache: compile_file
torch._inductor.cpp_builder: run_compile_cmd
numpy.distutils.exec_command: exec_command _exec_command
numpy.f2py: compile run_main
numpy.f2py.f2py2e: main run_main run_compile
invoke invoke.run: run
git.cmd: Git.execute
""",
    CODE: """
builtins __builtin__: eval exec compile execfile apply input raw_input breakpoint
code: interact InteractiveInterpreter InteractiveConsole InteractiveInterpreter.runcode InteractiveInterpreter.runsource
code: InteractiveConsole.push InteractiveConsole.interact compile_command
codeop: compile_command Compile CommandCompiler
runpy: run_module run_path _run_code _run_module_code _run_module_as_main
timeit: timeit repeat main Timer Timer.timeit Timer.repeat
cProfile profile: run runctx Profile.run Profile.runctx Profile.runcall
trace: Trace.run Trace.runctx Trace.runfunc
pdb: run runeval runcall runctx set_trace post_mortem pm main Pdb
bdb: Bdb Bdb.run Bdb.runeval Bdb.runctx Bdb.runcall set_trace
doctest: debug debug_script debug_src run_docstring_examples testfile testmod DocTestRunner.run
unittest unittest.main: main TestProgram
dataclasses: _create_fn
typing: get_type_hints _eval_type ForwardRef._evaluate
annotationlib: ForwardRef.evaluate get_annotations call_evaluate_function
inspect: get_annotations _signature_fromstr
gettext: c2py
rlcompleter: Completer.attr_matches Completer.global_matches Completer.complete
site: addsitedir addpackage execsitecustomize execusercustomize main
logging.config: fileConfig dictConfig listen
idlelib.autocomplete: AutoComplete.get_entity AutoComplete.fetch_completions
idlelib.calltip: get_entity Calltip.fetch_tip
idlelib.debugobj: ObjectTreeItem.SetText
idlelib.pyshell: ModifiedInterpreter.runcode ModifiedInterpreter.runcommand
idlelib.run: Executive.runcode
lib2to3.pgen2.pgen: ParserGenerator.make_label
_xxsubinterpreters _interpreters: run_string exec
multiprocessing.spawn: spawn_main _main prepare import_main_path
multiprocessing.forkserver: main
torch._dynamo.guards: GuardBuilder.get
torch.fx.experimental.symbolic_shapes: ShapeEnv.evaluate_guards_expression
torch.fx.graph_module: _exec_with_source _forward_from_src _method_from_src
torch.jit.unsupported_tensor_ops: execWrapper
torch.utils.bottleneck.__main__: main run_cprofile run_autograd_prof
numpy.testing numpy.testing._private.utils: runstring rundocs measure
numpy.f2py.crackfortran: getlincoef myeval param_eval _eval_length _eval_scalar
numexpr numexpr.necompiler: evaluate
pandas pandas.core.computation.eval: eval
sympy sympy.core.sympify: sympify
sympy.parsing.sympy_parser: parse_expr eval_expr
sympy sympy.utilities.lambdify: lambdify
jinja2 jinja2.environment: Template Environment.from_string
mako.template: Template
IPython: start_ipython embed
IPython.core.interactiveshell: InteractiveShell.run_cell InteractiveShell.run_code InteractiveShell.system
fire fire.core: Fire
hydra.utils hydra._internal.instantiate._instantiate2: instantiate call
dill dill._dill: _eval_repr
""",
    BYTECODE: """
types new: FunctionType LambdaType CodeType function code
cloudpickle cloudpickle.cloudpickle: _make_function _make_skel_func _fill_function _function_setstate
cloudpickle cloudpickle.cloudpickle: _make_skeleton_class _rehydrate_skeleton_class
dill dill._dill: _create_function _create_code _create_type
""",
    IMPORT: """
builtins __builtin__: __import__ reload
importlib: import_module __import__ reload
importlib._bootstrap: __import__ _gcd_import _find_and_load _load _exec
importlib._bootstrap_external: SourceFileLoader SourcelessFileLoader ExtensionFileLoader SourceLoader.exec_module
importlib.machinery: SourceFileLoader SourcelessFileLoader ExtensionFileLoader
importlib.util: module_from_spec spec_from_file_location spec_from_loader find_spec LazyLoader
imp: load_source load_module load_dynamic load_compiled load_package init_builtin init_frozen reload find_module
_imp: create_dynamic exec_dynamic create_builtin exec_builtin
pkgutil: resolve_name get_loader find_loader walk_packages ImpLoader
pydoc: locate importfile safeimport resolve render_doc doc help
zipimport: zipimporter zipimporter.load_module zipimporter.exec_module
unittest.mock mock: _importer _dot_lookup
unittest.loader: TestLoader.loadTestsFromName TestLoader.discover
logging.config: _resolve BaseConfigurator.resolve DictConfigurator.resolve
warnings: _getcategory
xml.sax: make_parser _create_parser
six: _import_module
cloudpickle cloudpickle.cloudpickle: subimport dynamic_subimport
dill dill._dill: _import_module
werkzeug.utils: import_string
django.utils.module_loading: import_string
hydra.utils hydra._internal.utils: get_class get_method get_object _locate
test.support.import_helper: import_module import_fresh_module
""",
    LOADER: """
pickle _pickle cPickle pickle5: load loads _load _loads Unpickler _Unpickler Unpickler.load
marshal: load loads
shelve: open Shelf DbfilenameShelf
multiprocessing.reduction: loads ForkingPickler.loads
multiprocessing.connection: Client Listener answer_challenge deliver_challenge
lib2to3.pgen2.grammar: Grammar.load Grammar.loads
lib2to3.pgen2.driver: load_grammar load_packaged_grammar
pstats: Stats
dill dill._dill: load loads load_session load_module load_module_asdict Unpickler
cloudpickle cloudpickle.cloudpickle: load loads
joblib joblib.numpy_pickle sklearn.externals.joblib: load
yaml: load load_all unsafe_load unsafe_load_all full_load full_load_all
ruamel.yaml: load unsafe_load round_trip_load
jsonpickle: decode loads
jsonpickle.unpickler: decode
numpy numpy.lib.npyio numpy.lib._npyio_impl: load
numpy.lib.format numpy.lib._format_impl: read_array open_memmap
torch torch.serialization: load _load _legacy_load
torch.jit torch.jit._serialization: load jit_module_from_flatbuffer
torch._C: import_ir_module import_ir_module_from_buffer _import_ir_module_from_package
torch.hub: load list help load_state_dict_from_url download_url_to_file _load_local
torch.package torch.package.package_importer: PackageImporter
torch.export: load
torch._export: aot_load
torch._inductor: aoti_load_package
torch.distributed.distributed_c10d: _tensor_to_object
torch.distributed.rpc.internal: deserialize
torch.utils._config_module: ConfigModule.load_config
torch.utils.data.datapipes.utils.decoder: basichandlers
pandas pandas.io.pickle: read_pickle
pandas.compat.pickle_compat: load loads
keras.models keras.saving tensorflow.keras.models: load_model model_from_json
tensorflow.saved_model: load
onnx: load load_model
onnxruntime: InferenceSession
transformers: pipeline AutoModel.from_pretrained AutoTokenizer.from_pretrained AutoConfig.from_pretrained
transformers.dynamic_module_utils: get_class_from_dynamic_module get_class_in_module
""",
}
