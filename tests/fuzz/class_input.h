/* How the bytes of a decoder's fuzz input make a record of its class; make_seeds.c writes the same
 * form. A header of 4 bytes stands before the payload:
 *   0  which of the class' operations and layouts; one more: whatever byte 3 says
 *   1  version, low 4 bits
 *   2  bit 0: 8-byte pointers, 1: the clock is unknown, 2: times are shifted, 3: early
 *   3  opcode or id that may have neither */
#ifndef PROCFLEET_TESTS_FUZZ_CLASS_INPUT_H
#define PROCFLEET_TESTS_FUZZ_CLASS_INPUT_H

#include "agent/decode/decode_class.h"

#define CLASS_INPUT_HEADER  4
#define CLASS_INPUT_NUMBERS 255

/* The opcodes or ids the class knows, each once, in the order of its lists. */
size_t class_input_numbers(const struct decode_class *k, uint16_t out[CLASS_INPUT_NUMBERS]);

/* False: too short. The payload is borrowed from p. */
bool class_input_read(struct raw_event *out, const struct decode_class *k, const uint8_t *p,
                      size_t n);

#endif
