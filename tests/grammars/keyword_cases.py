"""What is done with each JSON Schema keyword, with an example: the source of the docs table.

A row is (keyword, what holds of it, schema, a valid value, an invalid one). `WITHIN` rows are
enforced exactly up to a bound; `REFUSED` rows give a schema that is refused in place of values.
"""

ENFORCED, WITHIN, REFUSED, NOTED = "enforced", "enforced within bounds", "refused", "annotation"

STRINGS = {"type": "array", "items": {"type": "string"}}

KEYWORDS = [
    ("type", ENFORCED, {"type": ["integer", "null"]}, 3, "3"),
    ("enum", ENFORCED, {"enum": [1, "a", [2]]}, [2], [3]),
    ("const", ENFORCED, {"const": {"a": 1}}, {"a": 1}, {"a": 2}),
    ("allOf", ENFORCED, {"allOf": [{"minimum": 2}, {"maximum": 3}]}, 2, 4),
    ("anyOf", ENFORCED, {"anyOf": [{"minimum": 5}, {"type": "string"}]}, "a", 4),
    ("oneOf", ENFORCED, {"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 1, 3),
    ("not", ENFORCED, {"not": {"type": "integer", "minimum": 2}}, 1, 2),
    ("if, then, else", ENFORCED,
     {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}}, "ab", "a"),
    ("$ref, $defs, definitions", ENFORCED,
     {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}},
     [[]], [1]),
    ("$id, $anchor", ENFORCED, {"$ref": "#n", "$defs": {"n": {"$anchor": "n", "type": "null"}}},
     None, 1),
    ("$dynamicRef, $dynamicAnchor", ENFORCED,
     {"$dynamicRef": "#n", "$defs": {"n": {"$dynamicAnchor": "n", "type": "null"}}}, None, 1),
    ("$recursiveRef, $recursiveAnchor", ENFORCED,
     {"$schema": "https://json-schema.org/draft/2019-09/schema", "type": "array",
      "items": {"$recursiveRef": "#"}}, [[]], [1]),
    ("minLength, maxLength", ENFORCED, {"minLength": 2, "maxLength": 3}, "äöü", "a"),
    ("pattern", ENFORCED, {"pattern": "^a+$"}, "aa", "ab"),
    ("format", ENFORCED, {"format": "date"}, "2024-02-29", "2023-02-29"),
    ("minimum, maximum", ENFORCED, {"minimum": 0.1, "maximum": 0.3}, 0.3, 0.31),
    ("exclusiveMinimum, exclusiveMaximum", ENFORCED, {"exclusiveMinimum": 1}, 1.5, 1),
    ("multipleOf", WITHIN, {"multipleOf": 0.25}, 1.75, 1.8),
    ("minItems, maxItems", ENFORCED, {"minItems": 1, "maxItems": 2}, [1], []),
    ("items, prefixItems, additionalItems", ENFORCED,
     {"prefixItems": [{"type": "string"}], "items": {"type": "null"}}, ["a", None], ["a", 1]),
    ("contains, minContains, maxContains", WITHIN,
     {"contains": {"type": "null"}, "maxContains": 1}, [1, None], [None, None]),
    ("uniqueItems", WITHIN,
     {"uniqueItems": True, "items": {"enum": ["a", "b"]}}, ["b", "a"], ["a", "a"]),
    ("unevaluatedItems", ENFORCED,
     {"prefixItems": [{"type": "null"}], "unevaluatedItems": False}, [None], [None, 1]),
    ("properties, required", ENFORCED,
     {"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"a": None}, {"b": 1}),
    ("patternProperties", ENFORCED, {"patternProperties": {"^n": {"type": "null"}}},
     {"n": None, "m": 1}, {"n": 1}),
    ("additionalProperties", ENFORCED,
     {"properties": {"a": {}}, "additionalProperties": {"type": "null"}}, {"a": 1, "b": None},
     {"b": 1}),
    ("propertyNames", ENFORCED, {"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}),
    ("minProperties, maxProperties", WITHIN, {"minProperties": 1, "maxProperties": 1}, {"a": 1},
     {}),
    ("dependentRequired", ENFORCED, {"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1},
     {"a": 1}),
    ("dependentSchemas", ENFORCED, {"dependentSchemas": {"a": {"maxProperties": 1}}}, {"a": 1},
     {"a": 1, "b": 1}),
    ("dependencies", ENFORCED,
     {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}},
     {"b": 1}, {"a": 1}),
    ("unevaluatedProperties", ENFORCED,
     {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
    ("title, description, default, examples, deprecated, readOnly, writeOnly, $comment, content*",
     NOTED, {"title": "x", "default": 3}, "anything", None),
]  # fmt: skip

BOUNDS = {
    "multipleOf": "multiples as written and as validators divide doubles, so 1.15 is not taken for "
    "0.05; a type (`Schema(Model)`) takes it, as Pydantic does; up to 15 decimals and 20,000 "
    "remainders: the number, without its decimal point, times its decimals plus two",
    "type: number, integer": "whole numbers of up to 4,300 digits; numbers with a point have at "
    "most 300 digits before it, those with an exponent lie between 1e-323 and 1e308",
    "contains, minContains, maxContains": "up to 20,000 cases of items and matches so far",
    "uniqueItems": "up to 64 different items, or 4,096 arrays of leading items; any array of at "
    "most one item",
    "minProperties, maxProperties": "a minimum above the required properties plus one needs "
    "names that are all listed",
}

REFUSALS = [
    ("uniqueItems over free values", {**STRINGS, "uniqueItems": True}, "#/uniqueItems"),
    ("multipleOf with many digits", {"multipleOf": 0.123456789}, "#/multipleOf"),
    ("minProperties over free names", {"minProperties": 2}, "#/minProperties"),
    ("not over uniqueItems", {"not": {"uniqueItems": True}}, "#/not/uniqueItems"),
    ("not over unevaluatedProperties or unevaluatedItems",
     {"not": {"unevaluatedProperties": False}}, "#/not/unevaluatedProperties"),
    ("format: regex", {"format": "regex"}, "#/format"),
    ("pattern with a backreference", {"pattern": "(a)\\1"}, "#/pattern"),
    ("$ref to another document that was not given", {"$ref": "https://example.com/x"}, "#/$ref"),
    ("more than 8 patterns of property names in one object",
     {"patternProperties": {f"^{letter}": {} for letter in "abcdefghi"}},
     "#/patternProperties/^i"),
]  # fmt: skip
