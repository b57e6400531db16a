package protocol

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// Transcript is an unambiguous encoding of a list of items under a domain. Every item, the domain
// first, follows its length in bytes (8 bytes, big endian), so that no two lists have the same
// encoding. Everything that is hashed, signed or used to derive keys goes through one. Make it with
// NewTranscript.
type Transcript struct{ b []byte }

// NewTranscript opens the transcript of a domain, which names what it is for.
func NewTranscript(domain string) *Transcript { return new(Transcript).Text(domain) }

// Bytes adds an item.
func (t *Transcript) Bytes(b []byte) *Transcript {
	t.b = binary.BigEndian.AppendUint64(t.b, uint64(len(b)))
	t.b = append(t.b, b...)
	return t
}

// Text adds a string.
func (t *Transcript) Text(s string) *Transcript {
	t.b = binary.BigEndian.AppendUint64(t.b, uint64(len(s)))
	t.b = append(t.b, s...)
	return t
}

// Uint adds an integer: 8 bytes, big endian.
func (t *Transcript) Uint(v uint64) *Transcript {
	t.b = binary.BigEndian.AppendUint64(t.b, 8)
	t.b = binary.BigEndian.AppendUint64(t.b, v)
	return t
}

// Float adds the bits of a number in IEEE 754: 8 bytes, big endian.
func (t *Transcript) Float(v float64) *Transcript { return t.Uint(math.Float64bits(v)) }

// Cohort adds clients, tolerance and colluders, an item each. If the clients are chosen, it adds
// the word for that, the number of enrolled clients, and the goal.
func (t *Transcript) Cohort(c Cohort) *Transcript {
	t.Uint(uint64(c.Clients)).Float(c.Tolerance).Float(c.Colluders)
	if c.Enrolled != 0 {
		t.Text("chosen").Uint(uint64(c.Enrolled)).Uint(uint64(c.Goal))
	}
	return t
}

// Release adds every field of a release, the noise included, as an item each. The sensitivity is one where it is declared: plans
// without keep the hashes that they had before there was one.
func (t *Transcript) Release(r Release) *Transcript {
	spread := uint64(0)
	if r.Noise.Spread {
		spread = 1
	}
	t.Text(r.Name).Uint(uint64(r.Len)).Float(r.L2).Float(r.L1).Float(r.LInf).
		Uint(uint64(r.MaxNonZero)).Float(r.Scale).Uint(uint64(r.Width)).
		Text(r.Noise.Kind.String()).Float(r.Noise.Variance).Float(r.Noise.Multiplier).
		Float(r.Noise.SamplingRate).Uint(uint64(r.Noise.Steps)).Uint(spread)
	if r.Sensitivity > 0 {
		t.Text("sensitivity").Float(r.Sensitivity)
	}
	return t
}

// Encoding returns the bytes written so far; the caller must not change them.
func (t *Transcript) Encoding() []byte { return t.b }

// Sum is the SHA-256 of the encoding.
func (t *Transcript) Sum() [sha256.Size]byte { return sha256.Sum256(t.b) }

// Hash binds everything in a plan, with the model that it broadcasts and without its signature: two
// plans of one hash are the same. It is the SHA-256 of the transcript of the domain
// "fedsim/protocol/plan/v1" with the items below. testdata/plan.json holds an example.
//
//   - session, round, phase
//   - clients, tolerance, colluders, and for chosen clients the word, enrolled and goal
//   - the number of releases
//   - of each release its name, length, bounds (L2, L1, LInf), max-non-zero, scale, width; of its
//     noise the kind's word, variance, multiplier, sampling rate, steps and 1 if it is spread, else
//     0; and for a declared sensitivity the word and the value
//   - the SHA-256 of the broadcast
func (p *Plan) Hash() [sha256.Size]byte {
	t := NewTranscript("fedsim/protocol/plan/v1").
		Bytes(p.Session[:]).Uint(p.Round).Text(p.Phase).
		Cohort(p.Cohort).
		Uint(uint64(len(p.Releases)))
	for _, r := range p.Releases {
		t.Release(r)
	}
	model := sha256.Sum256(p.Broadcast)
	return t.Bytes(model[:]).Sum()
}
