package serving

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/fedssp/kernel"
)

// stateDomain begins the state of a strategy that survives a restart: the session, the number of
// planned rounds, the model, and the weight counts.
//
//	state = domain ‖ session (16 bytes) ‖ round (8) ‖ model length (4) ‖ model ‖
//	        0 or 1 ‖ (deviation ‖ c_j/|U1| (m), if 1) ‖
//	        (0 or 1 ‖ (deviation ‖ sums for biases (m), if 1), with several of them) ‖ (kept, with the pooled solver) ‖
//	        (record, with solvers from whose sums a session can start) ‖
//	        (0 or 1 ‖ encoder, if there is one)
//	kept = weight ‖ variance ‖ (moments (m·d) ‖ gramian (d·d), if weight is not 0)
//
// The flag before the encoder's state says that V has yet to follow the encoder.
//
// Integers are big endian, numbers as in the model ([kernel.Model.Encode]). The domain ends in the version
// of the form. The keeper of a state must detect damage.
const stateDomain = "fedsim/fedssp/state/v2\n"

// Save returns the state before the next call of Next.
func (s *Strategy) Save() ([]byte, error) {
	model := s.model.Encode()
	b := append([]byte(stateDomain), s.Params.Session[:]...)
	b = binary.BigEndian.AppendUint64(b, s.Round)
	b = binary.BigEndian.AppendUint32(b, uint32(len(model)))
	b = append(b, model...)
	b = appendMeasured(b, s.fresh, s.freshNoise)
	if s.Params.BiasRounds > 1 {
		b = appendMeasured(b, s.Left.Sums, s.Left.Noise)
	}
	b = s.Solving.Save(b)
	if s.records() {
		b = s.own.save(b)
	}
	if s.Encoder == nil {
		return b, nil
	}
	if s.Encoded {
		return append(append(b, 1), s.Encoder.Save()...), nil
	}
	return append(append(b, 0), s.Encoder.Save()...), nil
}

// appendMeasured appends a flag and, if there are numbers, the deviation of their noise and a
// number for every item.
func appendMeasured(b []byte, x []float64, noise float64) []byte {
	if x == nil {
		return append(b, 0)
	}
	return kernel.AppendFloats(kernel.AppendFloats(append(b, 1), noise), x...)
}

// Restore returns an error that says why if a state belongs to another session or does not fit. The
// strategy is then unchanged.
func (s *Strategy) Restore(state []byte) error {
	session := s.Params.Session
	b := state
	if len(b) < len(stateDomain)+len(session)+8+4 {
		return fmt.Errorf("fedssp: a state of %d bytes; it begins with %d", len(b), len(stateDomain)+len(session)+8+4)
	}
	if got := string(b[:len(stateDomain)]); got != stateDomain {
		return fmt.Errorf("fedssp: the state begins with %q; it must begin with %q: it is of another algorithm or version", got, stateDomain)
	}
	b = b[len(stateDomain):]
	if got := b[:len(session)]; string(got) != string(session[:]) {
		return fmt.Errorf("fedssp: the state is of session %x; this one is %x", got, session)
	}
	b = b[len(session):]
	next := *s // takes effect as a whole, or not at all
	round, length := binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
	if round > uint64(len(s.Params.Steps)) {
		return fmt.Errorf("fedssp: the state is of round %d; the last one is %d", round, len(s.Params.Steps))
	}
	b = b[12:]
	if uint64(length) > uint64(len(b)) {
		return fmt.Errorf("fedssp: the state ends within its model of %d bytes", length)
	}
	model, err := kernel.DecodeModel(b[:length], &s.All)
	if err != nil {
		return err
	}
	if err = next.turnBack(model); err != nil {
		return err
	}
	weight, deviation, b, err := next.decodeMeasured("weight counts", b[length:])
	if err != nil {
		return err
	}
	var before left
	if next.Params.BiasRounds > 1 {
		if before.Sums, before.Noise, b, err = next.decodeMeasured("sums for biases", b); err != nil {
			return err
		}
	}
	if next.Solving, b, err = next.Solving.Restore(&next.Params.Params, b); err != nil {
		return err
	}
	next.own = Record{}
	if next.records() {
		if next.own, b, err = restoreRecord(&next.Params.Params, b); err != nil {
			return err
		}
	}
	switch {
	case next.Encoder == nil && len(b) > 0:
		return fmt.Errorf("fedssp: %d bytes stand behind the state; there must be none", len(b))
	case next.Encoder != nil && (len(b) == 0 || b[0] > 1):
		return errors.New("fedssp: the state ends before its encoder's state, which must begin with 0 or 1")
	case next.Encoder != nil:
		if err := next.Encoder.Restore(b[1:]); err != nil {
			return err
		}
	}
	next.Encoded, next.Left = len(b) > 0 && b[0] == 1, before
	next.uncounted = model.Unchosen && s.chosenBy(round)
	next.Round, next.model, next.fresh, next.freshNoise = round, model, weight, deviation
	next.weigh()
	*s = next
	return nil
}

// turnBack sets the strategy to the items that a model was trained on.
func (s *Strategy) turnBack(m *kernel.Model) error {
	switch {
	case m.Unchosen:
		s.Chosen, s.Params.Params, s.Encoder, s.Solving = nil, s.All, nil, solverOf(&s.All).Begin(&s.All)
		return nil
	case m.Chosen != nil:
		s.turnTo(m.Chosen)
		return s.prepareSolver()
	default:
		return nil
	}
}

// decodeMeasured reads the form of appendMeasured, and returns the bytes after it.
func (s *Strategy) decodeMeasured(what string, b []byte) (x []float64, deviation float64, rest []byte, err error) {
	if len(b) > 0 && b[0] == 0 {
		return nil, 0, b[1:], nil
	}
	end := 1 + 8*(1+s.Params.Items)
	if len(b) < end || b[0] != 1 {
		return nil, 0, nil, fmt.Errorf("fedssp: the state has %d bytes of %s and more; 0 leads none, and 1 %d bytes for %d items", len(b), what, end-1, s.Params.Items)
	}
	x = kernel.Numbers(b[1:end])
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) || i == 0 && v < 0 {
			return nil, 0, nil, fmt.Errorf("fedssp: the state's %s hold %v at place %d; they are finite, and their deviation not negative", what, v, i)
		}
	}
	return x[1:], x[0], b[end:], nil
}
