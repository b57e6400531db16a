// Package simulated makes repeatable entropy sources: the same seed repeats a whole run, bit for
// bit, at any number of workers.
//
// Only the simulator, the audit and tests may import it; a test of the imports holds that. A
// party that knows the seed of a run can compute all of its secrets.
package simulated

import (
	"crypto/sha256"
	"encoding/binary"
	"io"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/source"
)

// New returns the source of one party in the run of a seed. Streams of different (seed, party,
// label, n) are independent; the same four repeat the same bytes.
func New(seed uint64, party string) entropy.Source {
	prefix := sha256.Sum256(item(item(append(make([]byte, 0, room), "fedsim/entropy/simulated\x00"...),
		binary.BigEndian.AppendUint64(make([]byte, 0, 8), seed)), []byte(party)))
	return source.New(func(label string, n uint64) io.Reader {
		key := sha256.Sum256(item(binary.BigEndian.AppendUint64(append(make([]byte, 0, room), prefix[:]...), n), []byte(label)))
		return entropy.Keyed(key[:16])
	})
}

// room for what is hashed, so that it needs none of the heap.
const room = 96

// Numbered returns a source whose streams with number n, of any label, come from of(n).
func Numbered(of func(n uint64) entropy.Source) entropy.Source {
	return source.New(func(label string, n uint64) io.Reader { return of(n).Stream(label, n) })
}

// item appends b with its length, so that no two lists of items have the same hash.
func item(dst, b []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}
