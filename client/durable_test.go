package client_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// keeping is a bench whose trainer's state counts its saves: s1, s2, ...; before the given save
// there is none.
func keeping(t *testing.T, first int, err error) *bench {
	saves := 0
	b := benchOf(t, client.Config{Rounds: 2,
		NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, secagg.DrawClient), nil },
		Save: func() ([]byte, error) {
			if saves++; saves < first || err != nil {
				return nil, err
			}
			return []byte("s" + strconv.Itoa(saves)), nil
		}})
	b.plan = ownPlan
	return b
}

// The trained state is recorded after it was charged for, and before anything of the round leaves,
// ahead of it or not. After the end it is recorded before the end is reported.
func TestTrainingIsRecordedBeforeItIsSent(t *testing.T) {
	keeping(t, 1, nil).script(`
		announce 1    -> charged 1, work
		run           -> trained 1 s1, advertise 1
		roster 1 5    -> shares 1
		delivery 1 5  -> masked-input 1 + advertise 2
		survivors 1 5 + roster 2 5 -> unmask 1 + shares 2
		announce 2 delivery 5 -> charged 2, work
		run           -> trained 2 s2, masked-input 2
		final M       -> work
		run           -> trained 2 s3, session-ended`)
}

// Nothing is recorded of a trainer that has nothing to keep as yet.
func TestNothingToKeep(t *testing.T) {
	keeping(t, 2, nil).script(`
		announce 1 -> charged 1, work
		run        -> advertise 1
		final M    -> work
		run        -> trained 1 s2, session-ended`)
}

// A client that cannot keep what it trained sends nothing of it, and does not end.
func TestTrainingThatCannotBeKept(t *testing.T) {
	b := keeping(t, 1, errors.New("no"))
	b.script(`
		announce 1 -> charged 1, work
		run        -> work-failed
		roster 1 5 -> message-ignored
		final M    -> work
		run        -> work-failed`)
}
