"""Run a language model on your own hardware, with output that is right by construction.

Importing this package loads nothing heavy; opening a Session does.
"""

from .chat import Message
from .composition import Tag, TagValue, Thought
from .errors import (
    BudgetTooSmall,
    DeepInferError,
    DiskFull,
    EngineFailure,
    GenerationCancelled,
    GenerationTimeout,
    ImpossibleSchema,
    InvalidArgument,
    InvalidSchema,
    ModelError,
    ModelFileError,
    ModelNotFound,
    ModelNotSupported,
    OutputError,
    OutputRejected,
    PromptTooLong,
    SchemaError,
    SchemaNotSupported,
    SchemaTooLarge,
    SessionClosed,
    UnknownArgument,
)
from .params import SamplingParams
from .result import Recipe, ReplayReport, Result, Sample, Timings, TokenLogprob, Usage
from .schema import Schema
from .schema_check import Check
from .session import Session
from .session_info import ModelInfo, SessionStats
from .settings import Settings
from .stream import AsyncStream, Stream
from .stream_events import Finished, StreamEvent, TextDelta
from .tools import ToolCall
from .version import __version__
from .waiting import Interrupted

__all__ = [
    "AsyncStream",
    "BudgetTooSmall",
    "Check",
    "DeepInferError",
    "DiskFull",
    "EngineFailure",
    "Finished",
    "GenerationCancelled",
    "GenerationTimeout",
    "ImpossibleSchema",
    "Interrupted",
    "InvalidArgument",
    "InvalidSchema",
    "Message",
    "ModelError",
    "ModelFileError",
    "ModelInfo",
    "ModelNotFound",
    "ModelNotSupported",
    "OutputError",
    "OutputRejected",
    "PromptTooLong",
    "Recipe",
    "ReplayReport",
    "Result",
    "Sample",
    "SamplingParams",
    "Schema",
    "SchemaError",
    "SchemaNotSupported",
    "SchemaTooLarge",
    "Session",
    "SessionClosed",
    "SessionStats",
    "Settings",
    "Stream",
    "StreamEvent",
    "Tag",
    "TagValue",
    "TextDelta",
    "Thought",
    "Timings",
    "TokenLogprob",
    "ToolCall",
    "UnknownArgument",
    "Usage",
    "__version__",
]
