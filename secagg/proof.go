package secagg

import (
	"errors"
	"fmt"
	"io"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/secagg/inputproof"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/protocol"
)

// Proofs about inputs (active mode alone, where they are asked for; not in Bonawitz et al.). With its masked input a client sends
// commitments to its vectors, noise included, and a proof that they are within the bounds of an honest client. The aggregator
// verifies the proof before it adds the input. Commitments add up like vectors. The scalars that open them, the blindings, travel
// under masks of their own, from the same secrets. So the sum of the blindings opens the sum of the commitments, and shows that
// the released sum is of the vectors that were proved.

// verified holds what an aggregator keeps of proofs about inputs.
type verified struct {
	shape     *inputproof.Shape
	proofs    [][]byte
	blindings []*edwards25519.Scalar // summed, under masks
	removed   []*mask.Vector         // noise that clients take back: sums are opened with it
}

// shape returns the form of the proofs about the inputs of a plan; nil where inputs are not verified.
func (p Params) shape(plan *protocol.Plan) (*inputproof.Shape, error) {
	switch {
	case !p.VerifyInputs:
		return nil, nil
	case p.Mode != Active:
		return nil, errors.New("inputs are verified in active mode alone, where clients are taken to lie; use mode active, or verify-inputs no")
	}
	bounds := make([]inputproof.Bound, len(plan.Releases))
	for i, r := range plan.Releases {
		linf, l2 := plan.InputBound(r, p.Rounds)
		bounds[i] = inputproof.Bound{Len: r.Len, LInf: whole(linf), Squares: whole(l2 * l2)}
	}
	s, err := inputproof.New(bounds)
	if err != nil {
		err = fmt.Errorf("inputs cannot be proved; use verify-inputs no, or smaller scales: %w", err)
	}
	return s, err
}

// whole returns the integer at or below a bound: at least 1, and at most what no proof can have.
func whole(x float64) int64 { return int64(max(1, min(x, 3<<61))) }

// ProofSize returns the bytes of a client's proof about its input, and of the blindings beside it. Both are 0 where inputs are not
// verified. An error says why inputs of the plan, which must be valid, cannot be verified.
func (p Params) ProofSize(plan *protocol.Plan) (proof, blindings int, err error) {
	s, err := p.shape(plan)
	if s == nil || err != nil {
		return 0, 0, err
	}
	return s.Size(), s.Blindings() * scalarSize, nil
}

const scalarSize = 32

// proofContext binds a proof to its client and to all that the masks are bound to.
func proofContext(ctx mask.Context, id protocol.ClientID) []byte {
	h := protocol.NewTranscript("fedsim/secagg/proof/v1").Bytes(ctx.Session[:]).Uint(ctx.Round).Bytes(ctx.Binding[:]).Uint(uint64(id)).Sum()
	return h[:]
}

// prove puts the proof about vectors that are not masked yet, and the masked blindings, into a masked input.
func (c *Client) prove(out *protocol.MaskedInput, vectors []*mask.Vector, masks []masking, run protocol.Runner) error {
	if c.shape == nil {
		return nil
	}
	proof, blindings, err := c.shape.Prove(proofContext(c.context, c.party.cfg.ID), integers(vectors), c.stream("proof"), run)
	if err == nil {
		err = addScalarMasks(blindings, c.context, masks)
	}
	if err != nil {
		return err
	}
	out.Proof = proof
	for _, b := range blindings {
		out.Blindings = append(out.Blindings, b.Bytes()...)
	}
	return nil
}

// TryProof makes a proof about inputs and drops it, if inputs are verified: it takes the time of a client's.
func (p Params) TryProof(plan *protocol.Plan, inputs []protocol.Integers, random io.Reader, run protocol.Runner) error {
	shape, err := p.shape(plan)
	if shape == nil || err != nil {
		return err
	}
	vectors, err := fill(plan, inputs)
	if err == nil {
		_, _, err = shape.Prove(nil, integers(vectors), random, run)
	}
	return err
}

// addScalarMasks adds masks to scalars, or subtracts them. A mask has 64 bytes for each scalar, taken modulo the order of the group.
// Its context is the context of no vector.
func addScalarMasks(to []*edwards25519.Scalar, ctx mask.Context, masks []masking) error {
	ctx.Binding = protocol.NewTranscript("fedsim/secagg/blindings-binding/v1").Bytes(ctx.Binding[:]).Sum()
	r := protocol.Release{Name: "inputproof/blindings", Width: 64, Len: 8 * len(to)}
	var wide []byte
	for _, m := range masks {
		v, err := mask.NewVector(r.Width, r.Len)
		if err == nil {
			err = withTerms(r, ctx, []masking{{secret: m.secret, kind: m.kind}}, func(terms []mask.Term) error { return mask.AddAll(v, terms) })
		}
		if err != nil {
			return err
		}
		wide = v.AppendPacked(wide[:0])
		for i, x := range to {
			s, _ := new(edwards25519.Scalar).SetUniformBytes(wide[64*i:][:64]) // of 64 bytes it never fails
			if m.sub {
				s.Negate(s)
			}
			x.Add(x, s)
		}
	}
	clear(wide)
	return nil
}

// verifies prepares for the proofs about the inputs of the plan.
func (a *Aggregator) verifies(plan *protocol.Plan) error {
	shape, err := a.params.shape(plan)
	if shape == nil || err != nil {
		return err
	}
	a.verified = &verified{shape: shape}
	for range shape.Blindings() {
		a.verified.blindings = append(a.verified.blindings, edwards25519.NewScalar())
	}
	a.verified.removed, err = vectors(plan)
	return err
}

// inputContext is the context of the masks over the inputs.
func (a *Aggregator) inputContext() mask.Context {
	if a.contexts[ofInputs].Round == 0 {
		a.contexts[ofInputs] = a.roster.context(a.plan, a.wholly(a.arrived))
	}
	return a.contexts[ofInputs]
}

// keep takes a proof that was verified, and its blindings. With an error nothing was taken.
func (x *verified) keep(m *protocol.MaskedInput) error {
	if x == nil && len(m.Proof) == 0 && len(m.Blindings) == 0 {
		return nil
	}
	if x == nil || len(m.Blindings) != len(x.blindings)*scalarSize {
		return fmt.Errorf("%w: a proof of %d bytes with %d of blindings", ErrMalformed, len(m.Proof), len(m.Blindings))
	}
	sums := make([]*edwards25519.Scalar, len(x.blindings))
	for i, sum := range x.blindings {
		s, err := new(edwards25519.Scalar).SetCanonicalBytes(m.Blindings[i*scalarSize:][:scalarSize])
		if err != nil {
			return fmt.Errorf("%w: blinding %d: %w", ErrMalformed, i, err)
		}
		sums[i] = s.Add(s, sum)
	}
	x.blindings, x.proofs = sums, append(x.proofs, m.Proof)
	return nil
}

// opened returns an error unless the sums, without masks, are of the vectors that clients proved. It then takes off the noise that
// clients take back.
func (a *Aggregator) opened(run protocol.Runner) error {
	x := a.verified
	if x == nil {
		return nil
	}
	err := x.shape.Open(x.proofs, integers(a.sums), x.blindings, run)
	if errors.Is(err, inputproof.ErrRefused) {
		return &protocol.Unproved{Round: a.plan.Round}
	}
	for i, v := range a.sums {
		if err == nil {
			err = v.Add(x.removed[i])
		}
	}
	return err
}

// integers returns what residues stand for.
func integers(list []*mask.Vector) [][]int64 {
	return lists.Map(list, func(v *mask.Vector) []int64 { return v.AppendInts(make([]int64, 0, v.Len())) })
}
