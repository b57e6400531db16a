package aggregator

import (
	"errors"
	"fmt"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// round is a round in progress, or a round that is set up.
type round struct {
	setup    protocol.Setup
	chosen   []protocol.ClientID // whom it asks, in the order in which they are told
	ahead    bool                // it was set up before there was a plan
	anew     uint32              // the setups with its plan that were given up before
	begun    time.Time           // when its plan was announced
	plan     *protocol.Plan      // nil before there is one
	sum      Sum
	proceed  protocol.Proceed // one for all clients
	stage    protocol.Stage
	deadline time.Time
	tail     time.Time // when it is over; zero before enough have answered the present stage
	wake     time.Time // that was asked for last; zero: the deadline
	missed   []bool    // by client: it has not heard what it would have to answer
	// verifying[c] says that client c has answered the present stage, and that its
	// message is still to be verified.
	verifying []bool
	// awaited[c] is the stage that client c is expected to answer or, if it was lost, was expected
	// to. For a client that has answered the present stage, it is the following stage.
	awaited  []protocol.Stage
	expected int
	answered int
	inputs   int    // answered at the stage masked-input: |U1|
	unmasked int    // answered at the stage unmask: |U2|
	summing  uint64 // ID of the work that sums up; 0 before
	relayed  relayed
}

// admits returns an error if the present stage does not wait for a client's message.
func (r *round) admits(from protocol.ClientID, m protocol.StageMessage) error {
	_, stage := m.At()
	switch {
	case stage != r.stage || r.plan == nil && stage == protocol.StagePrepared:
		return fmt.Errorf("the stage %s is in progress", r.stage)
	case int(from) >= len(r.awaited):
		return errors.New("the client is not enrolled")
	case r.stale(m):
		return errors.New("it is of another setup of the round")
	case r.awaited[from] != stage || r.verifying[from]:
		return errors.New("the client has answered already, or was lost before")
	}
	return nil
}

// complete reports whether the present stage waits for no more clients: all have answered who may,
// or as many as the round continues with.
func (r *round) complete() bool { return r.answered >= min(r.expected, r.setup.Cohort.Wanted()) }

func (r *round) following() protocol.Stage {
	return protocol.StageFlow{Prepares: true, Confirms: r.sum.Confirms(), Replaces: r.setup.Replaces}.After(r.stage)
}

// close ends the present stage. Enough clients must be left.
func (r *round) close() error {
	if need := r.setup.Cohort.Required(); r.answered < need {
		return &protocol.TooFew{Round: r.setup.Round, Stage: r.stage, Left: r.answered, Required: need}
	}
	if r.stage == protocol.StagePrepared {
		return nil // which the sum has not
	}
	return r.sum.Close(r.stage)
}

// opening gives what opens the stage after the present one, for a client that answered that.
func (r *round) opening(id protocol.ClientID) protocol.Message {
	if r.stage == protocol.StagePrepared {
		r.proceed.Round = r.setup.Round
		return &r.proceed
	}
	return r.sum.Next(r.stage, id)
}

// advance opens the stage after a closed one, for the clients that answered the closed stage.
func (r *round) advance() {
	r.stage = r.following()
	r.expected, r.answered = r.answered, 0
	r.relayed = relayed{}
}

// begin sets when the present stage ends at the latest.
func (r *round) begin(deadline time.Time) {
	r.deadline, r.tail, r.wake = deadline, time.Time{}, deadline
}
