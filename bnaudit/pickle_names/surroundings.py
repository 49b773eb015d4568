"""Callables and objects that reach what surrounds the pickle: files, network, memory, the process."""

from __future__ import annotations

FILES = "reads, writes or removes files"
NETWORK = "reaches the network"
NATIVE = "loads native code or touches raw memory"
ATTRIBUTES = "reaches attributes by name"
LATER = "arranges for a function to be called"
STATE = "changes the state of the process"

# Each line: modules, a colon, names in all of them.
SURROUNDINGS = {
    FILES: """
builtins __builtin__: open file
io _io _pyio: open open_code FileIO OpenWrapper text_encoding
os posix nt: open fdopen remove unlink rename renames replace rmdir removedirs mkdir makedirs mkfifo mknod link symlink
os posix nt: truncate ftruncate chmod chown lchown lchmod fchmod fchown listdir scandir walk fwalk read write readv
os posix nt: writev pread pwrite sendfile copy_file_range readlink utime memfd_create close closerange dup dup2 pipe
shutil: rmtree move copy copy2 copyfile copytree copymode copystat chown make_archive unpack_archive _unsafe_rmtree
shutil: _rmtree_unsafe _rmtree_safe_fd _unpack_zipfile _unpack_tarfile _make_tarball _make_zipfile
pathlib.Path pathlib.PosixPath pathlib.WindowsPath: open read_text read_bytes write_text write_bytes unlink rmdir
pathlib.Path pathlib.PosixPath pathlib.WindowsPath: rename replace mkdir touch chmod lchmod symlink_to hardlink_to
pathlib.Path pathlib.PosixPath pathlib.WindowsPath: link_to iterdir glob rglob walk copy move
pathlib._local.Path pathlib._local.PosixPath pathlib._local.WindowsPath: open read_text read_bytes write_text unlink
pathlib._local.Path pathlib._local.PosixPath pathlib._local.WindowsPath: write_bytes rmdir rename replace mkdir touch
pathlib._local.Path pathlib._local.PosixPath pathlib._local.WindowsPath: chmod lchmod symlink_to hardlink_to iterdir
pathlib._local.Path pathlib._local.PosixPath pathlib._local.WindowsPath: glob rglob walk copy move
tempfile: NamedTemporaryFile TemporaryFile SpooledTemporaryFile TemporaryDirectory mkstemp mkdtemp mktemp
tempfile: _mkstemp_inner _TemporaryFileCloser
glob: glob iglob
fileinput: input FileInput
linecache: getline getlines updatecache
tokenize codecs gzip bz2 lzma wave aifc sunau dbm dbm.dumb dbm.gnu dbm.ndbm smart_open fsspec: open
gzip: GzipFile
bz2: BZ2File
lzma: LZMAFile
tarfile: open main TarFile TarFile.open TarFile.extractall TarFile.extract
zipfile: main ZipFile PyZipFile ZipFile.extractall ZipFile.extract
zipapp: create_archive
mmap: mmap
sqlite3 _sqlite3 sqlite3.dbapi2: connect Connection
netrc: netrc
configparser: RawConfigParser.read ConfigParser.read
logging: FileHandler basicConfig
logging.handlers: RotatingFileHandler TimedRotatingFileHandler WatchedFileHandler BaseRotatingHandler
mailbox: mbox Maildir MH Babyl MMDF
xml.etree.ElementTree xml.dom.minidom xml.sax: parse iterparse
py_compile: compile main
compileall: compile_dir compile_file compile_path main
distutils.file_util setuptools._distutils.file_util: write_file copy_file move_file
distutils.dir_util setuptools._distutils.dir_util: mkpath create_tree copy_tree remove_tree
readline: read_history_file write_history_file read_init_file append_history_file
pydoc: writedoc writedocs browse
lib2to3.pgen2.grammar: Grammar.dump
pickle _pickle cPickle dill cloudpickle joblib joblib.numpy_pickle: dump
numpy numpy.lib.npyio numpy.lib._npyio_impl: save savez savez_compressed savetxt loadtxt genfromtxt fromregex
numpy: fromfile memmap ndarray.tofile ndarray.dump recfromcsv recfromtxt DataSource
numpy.core.records numpy._core.records numpy.rec: fromfile
numpy.lib._datasource: open DataSource Repository
torch torch.serialization: save
torch: from_file
torch._C: _VariableFunctions.from_file _VariableFunctionsClass.from_file
torch.storage: UntypedStorage.from_file TypedStorage.from_file
torch: UntypedStorage.from_file FloatStorage.from_file
pandas: read_csv read_table read_json read_excel read_hdf read_parquet read_feather read_sql DataFrame.to_csv
PIL.Image: open
cv2: imread imwrite FileStorage VideoWriter
h5py h5py._hl.files: File
safetensors.torch: load_file save_file
""",
    NETWORK: """
socket _socket: socket SocketType create_connection create_server socketpair fromfd fromshare getaddrinfo gethostbyname
socket _socket: gethostbyname_ex gethostbyaddr getfqdn getnameinfo sethostname
ssl: get_server_certificate wrap_socket SSLSocket SSLContext
urllib: urlopen urlretrieve URLopener FancyURLopener
urllib2: urlopen build_opener install_opener
urllib.request: urlopen urlretrieve build_opener install_opener URLopener FancyURLopener OpenerDirector.open
http.client httplib: HTTPConnection HTTPSConnection HTTPConnection.request HTTPSConnection.request
http.server: HTTPServer ThreadingHTTPServer test
socketserver: TCPServer UDPServer UnixStreamServer ThreadingTCPServer
wsgiref.simple_server: make_server WSGIServer
ftplib: FTP FTP_TLS test
smtplib: SMTP SMTP_SSL LMTP
poplib: POP3 POP3_SSL
imaplib: IMAP4 IMAP4_SSL
nntplib: NNTP NNTP_SSL
telnetlib: Telnet
smtpd: SMTPServer
xmlrpc.client xmlrpclib: ServerProxy Server
xmlrpc.server: SimpleXMLRPCServer
asyncio asyncio.streams: open_connection start_server open_unix_connection start_unix_server
logging.handlers: SocketHandler DatagramHandler SysLogHandler SMTPHandler HTTPHandler
multiprocessing.managers: BaseManager SyncManager BaseManager.connect
requests requests.api: get post put patch delete head options request
requests requests.sessions: Session Session.get Session.post Session.put Session.request Session.send
urllib3: request PoolManager ProxyManager connection_from_url
httpx: get post put patch delete head request stream Client AsyncClient
aiohttp aiohttp.client: ClientSession request
paramiko paramiko.client: SSHClient Transport
websocket: create_connection WebSocketApp
boto3: client resource
wget gdown nltk: download
huggingface_hub: hf_hub_download snapshot_download upload_file upload_folder
torchvision.datasets.utils: download_url download_and_extract_archive download_file_from_google_drive
torch.distributed torch.distributed.distributed_c10d: init_process_group TCPStore
torch.distributed.rpc: init_rpc rpc_sync rpc_async remote
""",
    NATIVE: """
ctypes: CDLL PyDLL WinDLL OleDLL LibraryLoader cdll pydll windll oledll pythonapi CFUNCTYPE PYFUNCTYPE WINFUNCTYPE
ctypes: cast string_at wstring_at memmove memset py_object
_ctypes: dlopen dlsym dlclose LoadLibrary call_function call_cdeclfunction PyObj_FromPtr CFuncPtr
ctypes.util: find_library
cffi cffi.api: FFI FFI.dlopen FFI.verify
numpy.ctypeslib numpy.ctypeslib._ctypeslib: load_library
torch.ops torch.classes: load_library
torch._ops: _Ops.load_library
torch._classes: _Classes.load_library
tensorflow: load_op_library load_library
sqlite3: Connection.load_extension Connection.enable_load_extension
_testcapi _testinternalcapi: run_in_subinterp
""",
    ATTRIBUTES: """
operator _operator: attrgetter methodcaller
builtins __builtin__: setattr delattr vars globals locals
inspect: getattr_static currentframe stack getmodule
sys: _getframe _current_frames _getframemodulename
gc: get_objects get_referrers get_referents
""",
    LATER: """
_thread thread: start_new_thread start_new start_joinable_thread
threading: Thread Timer settrace setprofile _start_new_thread _start_joinable_thread
multiprocessing multiprocessing.context multiprocessing.process: Process Pool BaseProcess
multiprocessing.pool: Pool ThreadPool
concurrent.futures: ThreadPoolExecutor ProcessPoolExecutor
concurrent.futures.thread: ThreadPoolExecutor
concurrent.futures.process: ProcessPoolExecutor
torch.multiprocessing torch.multiprocessing.spawn: spawn start_processes Process
asyncio asyncio.runners: run Runner
atexit: register _run_exitfuncs
weakref: finalize
signal: signal set_wakeup_fd
sys: settrace setprofile addaudithook excepthook unraisablehook breakpointhook displayhook
torch.nn.modules.module: register_module_forward_hook register_module_forward_pre_hook
operator _operator: call
""",
    STATE: """
os posix nt: environ environb putenv unsetenv chdir fchdir chroot umask nice kill killpg abort _exit setuid setgid
os posix nt: seteuid setegid setsid setpgid setpriority register_at_fork
sys: modules path meta_path path_hooks path_importer_cache exit setrecursionlimit setswitchinterval stdout stdin stderr
builtins __builtin__: exit quit
signal: alarm setitimer raise_signal pthread_kill
resource: setrlimit prlimit
faulthandler: _sigsegv _sigabrt _sigfpe _read_null _stack_overflow _fatal_error
_thread: interrupt_main
torch.serialization: add_safe_globals register_package clear_safe_globals
copyreg copy_reg: pickle add_extension constructor
codecs: register register_error
""",
}
