// Package mask hides integer vectors under pseudorandom masks that cancel in a sum. It
// has vectors in Z_{2^b}, their packed encoding, and masks expanded from a shared secret.
//
// # Use
//
// A client writes its integers into a [Vector] and adds its masks: one for each
// neighbour, added by one end of the pair and subtracted by the other, and its own. The
// result is packed at exactly b bits a coordinate:
//
//	v, err := mask.NewVector(29, 213540)
//	err = v.AddInts(integers)
//	stream, err := mask.NewStream(secret, mask.Pair, context, mask.Spec{Name: "V", Width: 29, Len: 213540})
//	err = mask.AddAll(v, []mask.Term{{Stream: stream, Sub: peer < me}, ...})
//	bytes := v.AppendPacked(nil)
//
// The aggregator starts with a vector of zeros, adds each input with [Vector.AddPacked],
// removes the remaining masks with [AddAll] and reads the sum with [Vector.AppendInts].
// [AddRange] masks a part of a vector; disjoint parts may be masked concurrently, to
// spread a vector over cores. The result does not depend on how the vector was divided.
//
// # Residues
//
// A ring of width b has the residues modulo 2^b, 8 <= b <= 64, and stands for the
// integers from -2^(b-1) to 2^(b-1)-1. A Vector keeps them in 32-bit words for b <= 32
// and in 64-bit words above, and adds modulo the word size, which 2^b divides: only
// packed and returned values are reduced. (Two lanes in a 64-bit word would need their
// carries kept apart, and cost more than plain words where several masks are added in one
// pass.)
//
// # Wire
//
// A packed vector of L coordinates is a string of ⌈b·L/8⌉ bytes. Bit i of the string is
// bit i mod 8, counted from the least significant, of byte ⌊i/8⌋; coordinate j is the
// integer of the bits j·b to j·b+b-1, least significant first. The bits left over in the
// last byte are zero; a decoder checks it.
//
// # Masks
//
// The AES-128 key of a mask is derived by HKDF-SHA-256 (RFC 5869), without salt, from the
// 32-byte secret. Its info is the items below, each preceded by its length in bytes (8
// bytes, big endian); integers are 8 bytes, big endian.
//
//	"fedsim/secagg/mask/v1"   domain
//	"pair" or "self"          kind
//	session                   16 bytes
//	round                 integer
//	binding                   32 bytes: H(plan ‖ roster ‖ model)
//	name of the vector
//	width                     integer
//	length                    integer
//
// Its keystream is AES in counter mode, from a block of zeros, counting big endian in all
// 16 bytes. Coordinate j of the mask is the low b bits of word j of the keystream, little
// endian, of 4 bytes for b <= 32 and of 8 bytes above.
//
// # Promise
//
// To a party without the secrets, masks under different secrets, kinds, contexts, names, widths or
// lengths are independent, as far as HKDF-SHA-256 and AES-128 are pseudorandom. The same inputs
// give the same mask: using a mask for two vectors discloses their difference, so a context serves
// one masking.
//
// Time and memory access depend on sizes only, never on a secret, a vector or a mask,
// where AES has hardware support. Expanding takes a few blocks of 4 KiB besides the
// vector. Keystream and keys in the package's own memory are cleared ([Stream.Wipe]); the
// round keys that crypto/aes expands and what HKDF leaves behind cannot be cleared and
// last until the memory is used again.
package mask
