package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// A party's state of VFL for a restart holds its V_k, its items, and the steps on V_k that are paid
// for and not taken.
//
//	state = domain ‖ finished (1 byte) ‖ noise: kind (1), multiplier (8), rate (8), steps (4)
//	        ‖ rows (4) ‖ columns (4) ‖ items (4 each) ‖ embeddings
//
// Integers are big endian, and so are floats, except for the embeddings, which are as
// [Matrix.Encode] writes them. The keeper of a state must detect damage.
const (
	verticalState = "fedsim/fedmf/vertical/v1\n"
	verticalHead  = len(verticalState) + 1 + 1 + 8 + 8 + 4 + 4 + 4
)

// Save returns nil before the first round. The state is as private as V_k: more exact than the
// embeddings that the party may publish.
func (t *Vertical) Save() ([]byte, error) {
	if t.alone {
		return nil, errors.New("fedmf: a party that trains alone is a baseline, and has no state to keep")
	}
	if t.steps == nil {
		return nil, nil
	}
	v := t.steps.v
	b := make([]byte, 0, verticalHead+4*len(t.items)+8*len(v.Data()))
	b = append(b, verticalState...)
	finished := byte(0)
	if t.finished {
		finished = 1
	}
	b = append(b, finished, byte(t.last.Kind))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(t.last.Multiplier))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(t.last.SamplingRate))
	b = binary.BigEndian.AppendUint32(b, uint32(t.last.Steps))
	b = binary.BigEndian.AppendUint32(b, uint32(v.Rows()))
	b = binary.BigEndian.AppendUint32(b, uint32(v.Cols()))
	for _, j := range t.items {
		b = binary.BigEndian.AppendUint32(b, uint32(j))
	}
	return append(b, v.Encode()...), nil
}

// Restore takes up a saved state, before the first round. It draws the trimmed ratings of a
// user again from src: a step's sensitivity is the same for any choice.
func (t *Vertical) Restore(state []byte, src entropy.Source) error {
	if state == nil {
		return nil
	}
	last, finished, err := t.decodeHead(state)
	if err != nil {
		return err
	}
	rest := state[verticalHead:]
	for k, j := range t.items {
		if got := binary.BigEndian.Uint32(rest[4*k:]); got != uint32(j) {
			return fmt.Errorf("fedmf: the state is of item %d at place %d; the party owns %d there", got, k, j)
		}
	}
	// Project as for a broadcast: the sensitivity holds for feasible embeddings only.
	v, err := t.params.receive(rest[4*len(t.items):], len(t.items), nil)
	if err != nil {
		return err
	}
	if err = t.prepare(src); err != nil {
		return err
	}
	t.steps.v, t.last, t.finished = v, last, finished
	return nil
}

// decodeHead reads a state up to its items, and checks the state's length.
func (t *Vertical) decodeHead(b []byte) (last protocol.Noise, finished bool, err error) {
	if want := verticalHead + len(t.items)*(4+8*t.params.Rank); len(b) != want {
		return last, false, fmt.Errorf("fedmf: a state of %d bytes; a state of %d items has %d", len(b), len(t.items), want)
	}
	if got := string(b[:len(verticalState)]); got != verticalState {
		return last, false, fmt.Errorf("fedmf: the state begins with %q; it must begin with %q: it is of another algorithm or version", got, verticalState)
	}
	b = b[len(verticalState):]
	last = protocol.Noise{
		Kind:       protocol.NoiseKind(b[1]),
		Multiplier: math.Float64frombits(binary.BigEndian.Uint64(b[2:])), SamplingRate: math.Float64frombits(binary.BigEndian.Uint64(b[10:])),
		Steps: int(binary.BigEndian.Uint32(b[18:])),
	}
	rows, cols := binary.BigEndian.Uint32(b[22:]), binary.BigEndian.Uint32(b[26:])
	switch {
	case b[0] > 1:
		return last, false, fmt.Errorf("fedmf: the state says finished %d; 0 is no and 1 is yes", b[0])
	case last.Kind != protocol.NoNoise && last.Kind != protocol.PartyNoise:
		return last, false, fmt.Errorf("fedmf: the state has noise of the kind %s; a party noises its own steps", last.Kind)
	case last.Steps > t.params.ItemSteps || !(last.SamplingRate > 0 && last.SamplingRate <= 1) || !(last.Multiplier >= 0):
		return last, false, fmt.Errorf("fedmf: the state has %d steps paid for, at the rate %v and multiplier %v; at most %d follow the last round",
			last.Steps, last.SamplingRate, last.Multiplier, t.params.ItemSteps)
	case uint64(rows) != uint64(len(t.items)) || uint64(cols) != uint64(t.params.Rank):
		return last, false, fmt.Errorf("fedmf: the state holds %d x %d embeddings; there must be %d x %d", rows, cols, len(t.items), t.params.Rank)
	}
	return last, b[0] == 1, nil
}

func (t *Vertical) Snapshot() ([]byte, error) { return t.Save() }

func (t *Vertical) Resume(state []byte, src entropy.Source) error { return t.Restore(state, src) }
