package kernel

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// Snapshot returns u_i, fitted in stage 1, as little-endian float64, row by row.
func (t *User) Snapshot() ([]byte, error) { return numbers(t.u), nil }

func (t *User) Resume(snapshot []byte, _ entropy.Source) error {
	u := make([]float64, t.params.Rank)
	if err := readNumbers(u, snapshot); err != nil {
		return err
	}
	t.u = u
	return nil
}

// Snapshot returns U_k.
func (t *Horizontal) Snapshot() ([]byte, error) {
	if t.u == nil {
		return nil, nil
	}
	return numbers(t.u.Data()), nil
}

// Resume restores U_k. The ratings are trimmed as they were before.
func (t *Horizontal) Resume(snapshot []byte, src entropy.Source) error {
	if t.steps == nil {
		if err := t.prepare(t.params.StartItems(), src, protocol.Workers(1)); err != nil {
			return err
		}
	}
	return readNumbers(t.u.Data(), snapshot)
}

// numbers encodes x; nil stays nil.
func numbers(x []float64) []byte {
	if x == nil {
		return nil
	}
	b := make([]byte, 0, 8*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func readNumbers(dst []float64, b []byte) error {
	if len(b) != 8*len(dst) {
		return fmt.Errorf("fedmf: a snapshot of %d bytes of embeddings; there must be %d", len(b), 8*len(dst))
	}
	for i := range dst {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return nil
}
