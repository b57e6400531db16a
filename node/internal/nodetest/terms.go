package nodetest

import (
	"time"

	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// Terms returns the terms of a session in which four clients add up eight numbers three times.
func Terms() session.Terms {
	return session.Terms{Session: protocol.SessionID{1}, Cohort: protocol.Cohort{Clients: 4, Tolerance: 0.25}, Mode: graph.SemiHonest,
		StageTimeout: time.Second, Tail: time.Second,
		Steps: protocol.Schedule{{Rounds: 3, Phase: "sums", Model: 1 << 20,
			Releases: []protocol.Release{{Name: "v", Len: 8, L2: 1, MaxNonZero: 8, Scale: 16, Width: 32}}}}}
}
