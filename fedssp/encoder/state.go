package encoder

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dataset"
)

// stateDomain begins the state of an encoder that survives a restart: θ, and for Adam its moments
// and the number of their steps.
//
//	state = domain ‖ fingerprint (32 bytes) ‖ steps (8, big endian) ‖ θ ‖ means ‖ squares
//
// Numbers are float64, little endian. The domain ends in the version of the form. The keeper of a
// state must detect damage.
const stateDomain = "fedsim/fedssp/encoder/v1\n"

// maxSteps is far above the steps of a run. Up to it steps are exact in a float64.
const maxSteps = 1 << 53

// fingerprint hashes everything that gives the numbers of a state their meaning and place. A state
// for other features of the same size would fit, and be nonsense.
func fingerprint(f *dataset.ItemFeatures, rank int, s Settings, seed uint64) [32]byte {
	h := sha256.New()
	item := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	number := func(n uint64) { h.Write(binary.BigEndian.AppendUint64(nil, n)) }
	flag := func(b bool) { number(map[bool]uint64{true: 1}[b]) }
	item([]byte(stateDomain))
	item([]byte(f.Digest))
	number(uint64(f.Items))
	number(uint64(len(f.Categories)))
	for _, c := range f.Categories {
		item([]byte(c.Name))
		number(uint64(len(c.Values)))
	}
	number(uint64(rank))
	number(uint64(s.Dim))
	flag(s.Dense)
	flag(s.IDs)
	item([]byte(s.Optimiser))
	number(math.Float64bits(s.StartNorm))
	number(seed)
	return [32]byte(h.Sum(nil))
}

// Save returns the state between two calls of Fit or FitPart.
func (e *Encoder) Save() []byte {
	b := append(make([]byte, 0, e.stateSize()), stateDomain...)
	b = append(b, e.fingerprint[:]...)
	b = binary.BigEndian.AppendUint64(b, e.opt.steps)
	for _, xs := range [][]float64{e.theta, e.opt.mean, e.opt.sq} {
		for _, x := range xs {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	return b
}

func (e *Encoder) stateSize() int {
	return len(stateDomain) + len(e.fingerprint) + 8 + 8*(len(e.theta)+len(e.opt.mean)+len(e.opt.sq))
}

// Restore returns to a state of Save. It returns an error that says why, and leaves the encoder
// unchanged, for a state that Save cannot return, or for other features, settings or seed.
func (e *Encoder) Restore(state []byte) error {
	b := state
	if len(b) != e.stateSize() {
		return fmt.Errorf("encoder: a state of %d bytes; of this encoder it has %d", len(b), e.stateSize())
	}
	if got := string(b[:len(stateDomain)]); got != stateDomain {
		return fmt.Errorf("encoder: the state begins with %q; it must begin with %q: it is of something else or of another version", got, stateDomain)
	}
	b = b[len(stateDomain):]
	if [32]byte(b) != e.fingerprint {
		return fmt.Errorf("encoder: the state is of other features, settings or another seed")
	}
	b = b[len(e.fingerprint):]
	steps := binary.BigEndian.Uint64(b)
	most := uint64(0)
	if e.opt.kind == Adam {
		most = maxSteps
	}
	if steps > most {
		return fmt.Errorf("encoder: the state's optimiser has taken %d steps; %d is the most it can keep", steps, most)
	}
	b = b[8:]
	n := len(e.theta)
	for i := range len(b) / 8 {
		x := math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		if math.IsNaN(x) || math.IsInf(x, 0) || i >= 2*n && x < 0 {
			return fmt.Errorf("encoder: number %d of the state is %v; all are finite, and running squares not negative", i, x)
		}
	}
	for k, xs := range [][]float64{e.theta, e.opt.mean, e.opt.sq} {
		for i := range xs {
			xs[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*(k*n+i):]))
		}
	}
	e.opt.steps = steps
	return nil
}
