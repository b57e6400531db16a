package fedssp

import (
	"encoding/binary"
	"fmt"
	"math"
)

// What a strategy must still know after a restart: of which session it is, how many iterations it
// has planned, the model, and the weight counts.
//
//	state = domain ‖ session (16 bytes) ‖ iteration (8) ‖ model length (4) ‖ model ‖
//	        0 or 1 ‖ (deviation ‖ c_j/|U1| (m), if 1)
//
// Integers are big endian, numbers as in the model ([Model.Encode]). The domain ends in the
// version of the form. That a state has not been damaged is for its keeper to see.
const stateDomain = "fedsim/fedssp/state/v1\n"

// Save implements server.Durable: the state before the next call of Next.
func (s *Strategy) Save() ([]byte, error) {
	model := s.model.Encode()
	b := append([]byte(stateDomain), s.params.Session[:]...)
	b = binary.BigEndian.AppendUint64(b, s.iteration)
	b = binary.BigEndian.AppendUint32(b, uint32(len(model)))
	b = append(b, model...)
	if s.weight == nil {
		return append(b, 0), nil
	}
	return appendFloats(appendFloats(append(b, 1), s.weightNoise), s.weight...), nil
}

// Restore implements server.Durable. A state that is not one of this session, or does not fit,
// is an error that says why; the strategy is then as it was.
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
	iteration, length := binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
	if iteration > uint64(len(s.params.Steps)) {
		return fmt.Errorf("fedssp: the state is of iteration %d; the last one is %d", iteration, len(s.params.Steps))
	}
	b = b[12:]
	if uint64(length) > uint64(len(b)) {
		return fmt.Errorf("fedssp: the state ends within its model of %d bytes", length)
	}
	model, err := DecodeModel(b[:length], &s.params.Params)
	if err != nil {
		return err
	}
	weight, deviation, err := s.decodeWeights(b[length:])
	if err != nil {
		return err
	}
	s.iteration, s.model, s.weight, s.weightNoise = iteration, model, weight, deviation
	return nil
}

// decodeWeights reads what stands behind the model.
func (s *Strategy) decodeWeights(b []byte) (weight []float64, deviation float64, err error) {
	if len(b) == 1 && b[0] == 0 {
		return nil, 0, nil
	}
	m := s.params.Items
	if len(b) != 1+8*(1+m) || b[0] != 1 {
		return nil, 0, fmt.Errorf("fedssp: the state ends in %d bytes of weight counts; there must be 1, or %d for %d items", len(b), 1+8*(1+m), m)
	}
	x := floats(b[1:])
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) || i == 0 && v < 0 {
			return nil, 0, fmt.Errorf("fedssp: the state's weight counts hold %v at place %d; they are finite, and their deviation not negative", v, i)
		}
	}
	return x[1:], x[0], nil
}
