package experiment

import (
	"crypto/ed25519"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/secagg/graph"
)

// Session returns the session of the experiment: derived in a simulation, stated in a deployment.
func (e *Experiment) Session() protocol.SessionID { return e.session }

// Plan returns the plan of a round, except the model; nil if there is no such round.
func (e *Experiment) Plan(round uint64) *protocol.Plan {
	step := e.Schedule.At(round)
	if step == nil {
		return nil
	}
	return &protocol.Plan{Session: e.session, Round: round, Phase: step.Phase, Cohort: e.Cohort, Releases: slices.Clone(step.Releases)}
}

// Plans returns the plan of the first round of every step, except the model.
func (e *Experiment) Plans() []*protocol.Plan {
	list := make([]*protocol.Plan, len(e.Schedule))
	round := uint64(1)
	for i, step := range e.Schedule {
		list[i] = e.Plan(round)
		round += uint64(step.Rounds)
	}
	return list
}

// Draw returns the party that draws the noise of the ideal sum.
func (e *Experiment) Draw() secagg.Draw {
	if algorithm.NoiseDraw.Is(e.Config, "client") {
		return secagg.DrawClient
	}
	return secagg.DrawSum
}

// Real reports whether sums run the whole protocol of secure aggregation.
func (e *Experiment) Real() bool { return algorithm.Secagg.Is(e.Config, "real") }

// Mode returns the kind of attack that real sums defend against.
func (e *Experiment) Mode() graph.Mode {
	if algorithm.Mode.Is(e.Config, graph.Active.String()) {
		return graph.Active
	}
	return graph.SemiHonest
}

// SumParams returns the parameters of real sums among the clients of an enrolment list, given as
// their public keys by ClientID. In semi-honest mode nothing rests on the list.
func (e *Experiment) SumParams(enrolled []ed25519.PublicKey) secagg.Params {
	p := secagg.Params{Mode: e.Mode(), Rounds: e.Schedule.Rounds()}
	if p.Mode == graph.Active {
		p.Identities = enrolled
	}
	return p
}

// sumParams returns the parameters of a real sum, as far as anything follows from them: the
// enrolment list has the right size, and no keys yet.
func (e *Experiment) sumParams() secagg.Params {
	if e.Mode() != graph.Active {
		return e.SumParams(nil)
	}
	var unknown [ed25519.PublicKeySize]byte
	return e.SumParams(slices.Repeat([]ed25519.PublicKey{unknown[:]}, e.Cohort.Clients))
}

// DropoutStages are the stages at which clients drop out.
func (e *Experiment) DropoutStages() []protocol.Stage { return e.stages }
