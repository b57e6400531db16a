// Package kdf is HKDF with SHA-256 (RFC 5869) in the only shape that the secure sum uses: a secret
// of 32 bytes, no salt, and up to 32 bytes of output. It makes no hash objects, and so takes six
// tenths of the time of crypto/hkdf, and no memory: a client derives four keys for each neighbour.
package kdf

import "crypto/sha256"

// Size is the length in bytes of secrets and of keys.
const Size = sha256.Size

// scratch holds a block of SHA-256, and what follows it of most keys.
const scratch = sha256.BlockSize + 448

// Key derives a key from a secret; info binds it to what it is for. Its first bytes are the shorter keys.
func Key(secret [Size]byte, info []byte) [Size]byte {
	random := mac([Size]byte{}, secret[:], nil) // salt defaults to zeros
	defer clear(random[:])
	return mac(random, info, []byte{1})
}

// mac is HMAC (RFC 2104) of a message in two parts.
func mac(key [Size]byte, message, last []byte) [Size]byte {
	var space [scratch]byte
	b := append(append(pad(space[:0], &key, 0x36), message...), last...)
	inner := sha256.Sum256(b)
	clear(b[:sha256.BlockSize]) // wherever it has grown to
	b = append(pad(space[:0], &key, 0x5c), inner[:]...)
	defer clear(b)
	return sha256.Sum256(b)
}

// pad appends a block: the key, and zeros, each byte added to with.
func pad(dst []byte, key *[Size]byte, with byte) []byte {
	for _, k := range key {
		dst = append(dst, k^with)
	}
	for range sha256.BlockSize - Size {
		dst = append(dst, with)
	}
	return dst
}
