package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/protocol"
)

// A collection of the pipeline holds bytes alone, which every runner can carry: sums as little-endian 64-bit
// integers, what a shard's trainers keep as one string after another, and the server's side as a gob.

func appendIntegers(b []byte, x []int64) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func integers(b []byte) ([]int64, error) {
	if len(b)%8 != 0 {
		return nil, fmt.Errorf("%d bytes of integers; each has 8", len(b))
	}
	x := make([]int64, len(b)/8)
	for i := range x {
		x[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return x, nil
}

// addInto adds the integers of b to the integers of a, modulo 2^64, and returns a. No integers at all stand for
// zeros. Sums of different lengths are not of one round, and panic.
func addInto(a, b []byte) []byte {
	switch {
	case len(b) == 0:
		return a
	case len(a) == 0:
		return bytes.Clone(b)
	case len(a) != len(b):
		panic(fmt.Sprintf("sums of %d and %d bytes are added", len(a), len(b)))
	}
	for i := 0; i+8 <= len(a); i += 8 {
		binary.LittleEndian.PutUint64(a[i:], binary.LittleEndian.Uint64(a[i:])+binary.LittleEndian.Uint64(b[i:]))
	}
	return a
}

// packSnapshots encodes the snapshots of trainers, in their order: each as its length plus one and its bytes, or as 0
// for a nil snapshot. If all snapshots are nil, the result is empty.
func packSnapshots(list [][]byte) []byte {
	var b []byte
	any := false
	for _, s := range list {
		if s == nil {
			b = append(b, 0)
			continue
		}
		any = true
		b = append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
	}
	if !any {
		return nil
	}
	return b
}

var errSnapshots = errors.New("the state of a shard's trainers is damaged")

func unpackSnapshots(b []byte, n int) ([][]byte, error) {
	list := make([][]byte, n)
	if len(b) == 0 {
		return list, nil
	}
	for i := range list {
		size, k := binary.Uvarint(b)
		if k <= 0 || size > uint64(len(b)-k)+1 {
			return nil, errSnapshots
		}
		if b = b[k:]; size > 0 {
			list[i], b = b[:size-1:size-1], b[size-1:]
		}
	}
	if len(b) > 0 {
		return nil, errSnapshots
	}
	return list, nil
}

// turn is the server's side between two rounds.
type turn struct {
	State   []byte         // of the strategy, before it makes Plan
	Plan    *protocol.Plan // of the next round; nil after the last one
	Model   []byte         // what the run ends with; nil before
	Refused string         // why the server refused the sum of the round that is over; "" where it did not
}

// shared is the model as it stands between the rounds.
func (t *turn) shared() []byte {
	if t.Plan == nil {
		return t.Model
	}
	return t.Plan.Broadcast
}

func (t *turn) encode() ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(t)
	return b.Bytes(), err
}

func decodeTurn(b []byte) (*turn, error) {
	t := new(turn)
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(t); err != nil {
		return nil, fmt.Errorf("the server's side between two rounds: %w", err)
	}
	return t, nil
}
