"""What Lark says of a text."""

from lark.exceptions import LarkError


def parses(parser, text):
    try:
        parser.parse(text)
    except LarkError:
        return False
    return True
