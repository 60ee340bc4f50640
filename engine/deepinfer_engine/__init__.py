"""Tokens in, tokens out: models, batching, sampling. Knows no schema and no JSON."""

from .config import EngineConfig
from .constraint import TokenConstraint
from .engine import Engine, EngineStats
from .errors import EngineError
from .handle import RequestHandle
from .loop import TokenTable
from .model import LoadedModel, load_model
from .request import (
    FinishEvent,
    GenerationRequest,
    Timings,
    TokenEvent,
    TokenLogprob,
    Usage,
)
from .tokenizer import Tokenizer

__all__ = [
    "Engine",
    "EngineConfig",
    "EngineError",
    "EngineStats",
    "FinishEvent",
    "GenerationRequest",
    "LoadedModel",
    "RequestHandle",
    "Timings",
    "TokenConstraint",
    "TokenEvent",
    "TokenLogprob",
    "TokenTable",
    "Tokenizer",
    "Usage",
    "load_model",
]
