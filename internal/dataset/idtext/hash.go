package idtext

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hashes returns 64 bits of the SHA-256 of each id. The domain keeps a user
// apart from an item of the same id.
func Hashes(domain string, ids []string) []uint64 {
	hashes := make([]uint64, len(ids))
	var text []byte
	for i, id := range ids {
		text = append(text[:0], domain...)
		text = binary.LittleEndian.AppendUint64(text, uint64(len(id)))
		text = append(text, id...)
		sum := sha256.Sum256(text)
		hashes[i] = binary.LittleEndian.Uint64(sum[:])
	}
	return hashes
}

// Draws returns a draw for each id by its hash and a seed.
func Draws(domain string, ids []string, seed uint64) []uint64 {
	draws, key := Hashes(domain, ids), Mix(seed+golden)
	for i, h := range draws {
		draws[i] = Mix(key ^ h)
	}
	return draws
}

// Mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection
// whose every output bit depends on every input bit.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// golden keeps the zero seed off the fixed point of Mix.
const golden = 0x9e3779b97f4a7c15
