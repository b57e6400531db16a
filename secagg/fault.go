package secagg

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/protocol"
)

// The rules that a message can break.
var (
	// ErrOrder: a stage was entered twice, too early, or after an error.
	ErrOrder = errors.New("the sum is not at this stage")
	// ErrRound: the round is not later than the last one joined, or belongs to
	// another session.
	ErrRound = errors.New("the round was taken part in already, or belongs to another session")
	// ErrPlan: a second plan, or one of another round, session or cohort than was set
	// up.
	ErrPlan = errors.New("the plan is not of the round that was set up, or there is one already")
	// ErrMalformed: sizes, order or encodings are not what the stage asks for.
	ErrMalformed = errors.New("the message is malformed")
	// ErrKeys: the keys differ from the keys that the client advertised.
	ErrKeys = errors.New("the keys are not the advertised keys")
	// ErrSignature: a signature is missing or does not verify.
	ErrSignature = errors.New("the signature does not verify")
	// ErrShare: shares that do not open, are missing, or are not what their dealer
	// committed to.
	ErrShare = errors.New("the share is missing, does not open, or is not what its dealer committed to")
	// ErrSurvivors: the survivors, of the first sum or the second, are impossible: too
	// few, not all present before, or without the client that is asked.
	ErrSurvivors = errors.New("these cannot be the survivors")
	// ErrLocked: survivors other than the first that were shown.
	ErrLocked = errors.New("other survivors were shown before; a client answers for one set only")
	// ErrQuorum: too few clients signed the same survivors.
	ErrQuorum = errors.New("too few clients signed these survivors")
)

// Fault says who broke which rule. The culprit is the party whose message is wrong, as
// far as the receiver can know: for unsigned data that came through the aggregator, it is
// the aggregator.
type Fault struct {
	Culprit protocol.Party
	Round   uint64
	Stage   protocol.Stage
	Err     error
}

func (f *Fault) Error() string {
	return fmt.Sprintf("round %d, stage %s: %s is at fault: %v", f.Round, f.Stage, f.Culprit, f.Err)
}

// Unwrap returns the rule that was broken.
func (f *Fault) Unwrap() error { return f.Err }
