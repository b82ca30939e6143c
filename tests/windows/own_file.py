"""What the double of event tracing was given by our own provider, as records for etl_file.write."""

import etl_file  # winehost says where it is

OWN = "41bfdbd9-b56f-5500-9ad4-a4d50184f7d5"


def lines(path):
    """Level, keyword and opcode as texts, then traits, schema and payload as bytes."""
    for line in open(path, encoding="ascii"):
        level, keyword, opcode, *parts = line.rstrip("\n").split(" ")
        yield (level, keyword, opcode, *(bytes.fromhex(p) for p in parts))


def records(path):
    """A record each 10 ms."""
    return [etl_file.event(10 * i, OWN, 0, payload, opcode=int(opcode),
                           items=etl_file.item(11, schema, True) + etl_file.item(12, traits, False))
            for i, (_, _, opcode, traits, schema, payload) in enumerate(lines(path))]
