"""Names that PyTorch, NumPy and plain Python put into checkpoints: known, without an effect, and always importable.

They are exact names. A name that is not here is no accusation; it is listed as needed to load the file.
"""

from __future__ import annotations

# Each line: modules, a colon, names in all of them.
HARMLESS = """
builtins __builtin__: set frozenset list dict tuple bytearray bytes str unicode int long float bool complex object
builtins __builtin__: slice range xrange Ellipsis NotImplemented getattr
builtins __builtin__: Exception ValueError TypeError KeyError RuntimeError
copyreg copy_reg: _reconstructor __newobj__ __newobj_ex__
_codecs: encode
collections: OrderedDict defaultdict deque Counter ChainMap UserDict
argparse: Namespace
functools: partial
types: SimpleNamespace
pathlib pathlib._local: Path PosixPath WindowsPath PurePath PurePosixPath PureWindowsPath
datetime: datetime date time timedelta timezone
decimal _decimal: Decimal
fractions: Fraction
uuid: UUID SafeUUID
random: Random
io _io: BytesIO StringIO
re: _compile
logging: getLogger Logger
operator _operator: itemgetter or_ and_ add mul
itertools: count repeat chain
numpy: ndarray dtype generic bool_ bool object_ str_ bytes_ void int8 int16 int32 int64 uint8 uint16 uint32 uint64
numpy: float16 float32 float64 longdouble complex64 complex128 intc intp uintc uintp datetime64 timedelta64 matrix
numpy.core.multiarray numpy._core.multiarray: _reconstruct scalar
numpy.core.numeric numpy._core.numeric: _frombuffer
numpy.core numpy._core: _ufunc_reconstruct _ufunc_reduce
numpy.dtypes: Float16DType Float32DType Float64DType Int8DType Int16DType Int32DType Int64DType UInt8DType BoolDType
numpy.dtypes: UInt16DType UInt32DType UInt64DType Complex64DType Complex128DType StrDType BytesDType ObjectDType
numpy.ma.core: _mareconstruct MaskedArray
numpy.random: RandomState
numpy.random.mtrand: RandomState
numpy.random._pickle: __randomstate_ctor __generator_ctor __bit_generator_ctor
numpy.random._mt19937: MT19937
numpy.random._pcg64: PCG64
torch: ByteStorage CharStorage ShortStorage IntStorage LongStorage HalfStorage FloatStorage DoubleStorage BoolStorage
torch: BFloat16Storage ComplexFloatStorage ComplexDoubleStorage QInt8Storage QUInt8Storage QInt32Storage
torch: QUInt4x2Storage QUInt2x4Storage UntypedStorage TypedStorage
torch: Size device dtype layout memory_format Tensor Generator ScriptObject
torch: float16 float32 float64 bfloat16 half float double int8 int16 int32 int64 uint8 uint16 uint32 uint64 short int
torch: long bool complex32 complex64 complex128 qint8 quint8 qint32 quint4x2 quint2x4 strided sparse_coo sparse_csr
torch: float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu per_tensor_affine per_channel_affine
torch: contiguous_format channels_last channels_last_3d preserve_format
torch._C: _VariableFunctionsClass _VariableFunctions TensorBase _TensorBase
torch._utils: _rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter _rebuild_parameter_with_state
torch._utils: _rebuild_qtensor _rebuild_sparse_tensor _rebuild_sparse_csr_tensor _rebuild_nested_tensor
torch._utils: _rebuild_device_tensor_from_numpy _rebuild_device_tensor_from_cpu_tensor _rebuild_xla_tensor
torch._utils: _rebuild_meta_tensor_no_storage _rebuild_wrapper_subclass
torch._tensor: _rebuild_from_type _rebuild_from_type_v2 Tensor
torch.tensor: _rebuild_from_type _rebuild_from_type_v2 Tensor
torch.serialization: _get_layout
torch.storage: _load_from_bytes UntypedStorage TypedStorage _UntypedStorage _TypedStorage
torch.torch_version: TorchVersion
torch.nn.parameter: Parameter Buffer UninitializedParameter UninitializedBuffer
torch.nn.modules.activation: CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax
torch.nn.modules.activation: Mish MultiheadAttention PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin
torch.nn.modules.activation: Softplus Softshrink Softsign Tanh Tanhshrink Threshold
torch.nn.modules.adaptive: AdaptiveLogSoftmaxWithLoss
torch.nn.modules.batchnorm: BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d
torch.nn.modules.batchnorm: SyncBatchNorm
torch.nn.modules.channelshuffle: ChannelShuffle
torch.nn.modules.container: Container Sequential ModuleList ModuleDict ParameterList ParameterDict
torch.nn.modules.conv: Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
torch.nn.modules.conv: LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d
torch.nn.modules.distance: CosineSimilarity PairwiseDistance
torch.nn.modules.dropout: Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout
torch.nn.modules.flatten: Flatten Unflatten
torch.nn.modules.fold: Fold Unfold
torch.nn.modules.instancenorm: InstanceNorm1d InstanceNorm2d InstanceNorm3d
torch.nn.modules.instancenorm: LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d
torch.nn.modules.linear: Linear Bilinear Identity LazyLinear NonDynamicallyQuantizableLinear _LinearWithBias
torch.nn.modules.loss: BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss HuberLoss
torch.nn.modules.loss: HingeEmbeddingLoss KLDivLoss L1Loss MSELoss MarginRankingLoss MultiLabelMarginLoss NLLLoss
torch.nn.modules.loss: MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss2d PoissonNLLLoss SmoothL1Loss SoftMarginLoss
torch.nn.modules.loss: TripletMarginLoss TripletMarginWithDistanceLoss
torch.nn.modules.module: Module
torch.nn.modules.normalization: LayerNorm GroupNorm RMSNorm LocalResponseNorm CrossMapLRN2d
torch.nn.modules.padding: CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d
torch.nn.modules.padding: ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d
torch.nn.modules.padding: ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d
torch.nn.modules.pixelshuffle: PixelShuffle PixelUnshuffle
torch.nn.modules.pooling: AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
torch.nn.modules.pooling: AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d
torch.nn.modules.pooling: LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d
torch.nn.modules.rnn: RNNBase RNN LSTM GRU RNNCellBase RNNCell LSTMCell GRUCell
torch.nn.modules.sparse: Embedding EmbeddingBag
torch.nn.modules.transformer: Transformer TransformerEncoder TransformerEncoderLayer TransformerDecoder
torch.nn.modules.transformer: TransformerDecoderLayer
torch.nn.modules.upsampling: Upsample UpsamplingNearest2d UpsamplingBilinear2d
torch.nn.parallel.data_parallel: DataParallel
torch.nn.parallel.distributed: DistributedDataParallel
torch.nn.utils.spectral_norm: SpectralNorm SpectralNormLoadStateDictPreHook SpectralNormStateDictHook
torch.nn.utils.weight_norm: WeightNorm
torch._dynamo.eval_frame: OptimizedModule
torch.optim.swa_utils: AveragedModel SWALR
torch.nn.functional: relu relu6 gelu silu mish elu selu celu leaky_relu sigmoid tanh softmax log_softmax hardtanh
torch.nn.functional: hardswish hardsigmoid softplus glu normalize interpolate dropout max_pool2d avg_pool2d
torch._C._nn: gelu softplus
torch.jit._pickle: build_boollist build_doublelist build_intlist build_tensorlist build_tensor_from_id restore_type_tag
"""
