"""What bytes a token id stands for: byte-level BPE's alphabet, read backwards."""

import tokenizers


def byte_alphabet() -> dict[str, int]:
    """The character that spells each of the 256 bytes in a byte-level vocabulary, and its byte.

    Source: GPT-2's byte-level BPE. The printable Latin-1 bytes spell themselves; the others, in
    order, take the characters from U+0100 on, so that no token holds a space or a control code.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    alphabet = {chr(byte): byte for byte in sorted(printable)}
    others = [byte for byte in range(0x100) if byte not in printable]
    return alphabet | {chr(0x100 + place): byte for place, byte in enumerate(others)}


BYTE_OF_CHARACTER = byte_alphabet()


def bytes_of_token(token: str) -> bytes:
    """The bytes that a vocabulary entry spells.

    An entry with any character outside the alphabet (an added token such as "<｜end｜>") stands for
    its own UTF-8 text: the rule of the tokenizers library's ByteLevel decoder.
    """
    try:
        return bytes([BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:
        return token.encode("utf-8")


def bytes_of_id(backend: tokenizers.Tokenizer, token_id: int) -> bytes:
    """The bytes of a token id (0 or more); an unknown one, as of a padded vocabulary, has none."""
    # The library counts ids in 32 bits and raises an error of its own above them.
    token = backend.id_to_token(token_id) if token_id < 2**32 else None
    return b"" if token is None else bytes_of_token(token)
