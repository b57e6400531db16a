package fedssp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// stateDomain begins the state of a strategy that survives a restart: the session, the number of
// planned rounds, the model, and the weight counts.
//
//	state = domain ‖ session (16 bytes) ‖ round (8) ‖ model length (4) ‖ model ‖
//	        0 or 1 ‖ (deviation ‖ c_j/|U1| (m), if 1) ‖
//	        (0 or 1 ‖ (deviation ‖ sums for biases (m), if 1), with several of them) ‖ (kept, with the pooled solver) ‖
//	        (0 or 1 ‖ encoder, if there is one)
//	kept = weight ‖ variance ‖ (moments (m·d) ‖ gramian (d·d), if weight is not 0)
//
// The flag before the encoder's state says that V has yet to follow the encoder.
//
// Integers are big endian, numbers as in the model ([Model.Encode]). The domain ends in the version
// of the form. The keeper of a state must detect damage.
const stateDomain = "fedsim/fedssp/state/v1\n"

// Save returns the state before the next call of Next.
func (s *Strategy) Save() ([]byte, error) {
	model := s.model.Encode()
	b := append([]byte(stateDomain), s.params.Session[:]...)
	b = binary.BigEndian.AppendUint64(b, s.round)
	b = binary.BigEndian.AppendUint32(b, uint32(len(model)))
	b = append(b, model...)
	b = appendMeasured(b, s.weight, s.weightNoise)
	if s.params.BiasRounds > 1 {
		b = appendMeasured(b, s.left.sums, s.left.noise)
	}
	b = s.solving.save(b)
	if s.encoder == nil {
		return b, nil
	}
	if s.encoded {
		return append(append(b, 1), s.encoder.Save()...), nil
	}
	return append(append(b, 0), s.encoder.Save()...), nil
}

// appendMeasured appends a flag and, if there are numbers, the deviation of their noise and a
// number for every item.
func appendMeasured(b []byte, x []float64, noise float64) []byte {
	if x == nil {
		return append(b, 0)
	}
	return appendFloats(appendFloats(append(b, 1), noise), x...)
}

// Restore returns an error that says why if a state belongs to another session or does not fit. The
// strategy is then unchanged.
func (s *Strategy) Restore(state []byte) error {
	session := s.params.Session
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
	if round > uint64(len(s.params.Steps)) {
		return fmt.Errorf("fedssp: the state is of round %d; the last one is %d", round, len(s.params.Steps))
	}
	b = b[12:]
	if uint64(length) > uint64(len(b)) {
		return fmt.Errorf("fedssp: the state ends within its model of %d bytes", length)
	}
	model, err := DecodeModel(b[:length], &s.all)
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
	if next.params.BiasRounds > 1 {
		if before.sums, before.noise, b, err = next.decodeMeasured("sums for biases", b); err != nil {
			return err
		}
	}
	if next.solving, b, err = next.solving.restore(&next.params.Params, b); err != nil {
		return err
	}
	switch {
	case next.encoder == nil && len(b) > 0:
		return fmt.Errorf("fedssp: %d bytes stand behind the state; there must be none", len(b))
	case next.encoder != nil && (len(b) == 0 || b[0] > 1):
		return errors.New("fedssp: the state ends before its encoder's state, which must begin with 0 or 1")
	case next.encoder != nil:
		if err := next.encoder.Restore(b[1:]); err != nil {
			return err
		}
	}
	next.encoded, next.left = len(b) > 0 && b[0] == 1, before
	next.uncounted = model.unchosen && s.chosenBy(round)
	next.round, next.model, next.weight, next.weightNoise = round, model, weight, deviation
	*s = next
	return nil
}

// turnBack sets the strategy to the items that a model was trained on.
func (s *Strategy) turnBack(m *Model) error {
	switch {
	case m.unchosen:
		s.chosen, s.params.Params, s.encoder, s.solving = nil, s.all, nil, serverSideOf(&s.all).begin(&s.all)
		return nil
	case m.chosen != nil:
		s.turnTo(m.chosen)
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
	end := 1 + 8*(1+s.params.Items)
	if len(b) < end || b[0] != 1 {
		return nil, 0, nil, fmt.Errorf("fedssp: the state has %d bytes of %s and more; 0 leads none, and 1 %d bytes for %d items", len(b), what, end-1, s.params.Items)
	}
	x = numbers(b[1:end])
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) || i == 0 && v < 0 {
			return nil, 0, nil, fmt.Errorf("fedssp: the state's %s hold %v at place %d; they are finite, and their deviation not negative", what, v, i)
		}
	}
	return x[1:], x[0], b[end:], nil
}
