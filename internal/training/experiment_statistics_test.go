package training_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/agreement"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	fedsspuser "github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Every plan of the server's is the experiment's, and none of another round is.
func TestPlansOfStatistics(t *testing.T) {
	for _, settings := range []string{"algorithm=ssp-c", "algorithm=dp-cmf accountant=gdp-skellam", "algorithm=ada-dpals epsilon=inf", "algorithm=ssp-i statistics.resample=3"} {
		e := opened.Joined(t, opened.Experiment(t, settings))
		s, err := e.Strategy()
		if err != nil {
			t.Fatal(err)
		}
		var plans []*protocol.Plan
		for {
			p, done, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			if done {
				break
			}
			if err := agreement.CheckPlan(e, p); err != nil {
				t.Errorf("%s: %v", settings, err)
			}
			if size := e.Schedule.At(p.Round).Model; len(p.Broadcast) > size {
				t.Errorf("%s: round %d comes with a model of %d bytes, of at most %d", settings, p.Round, len(p.Broadcast), size)
			}
			plans = append(plans, p)
			s.Skip(p, errors.New("nobody came"))
		}
		for _, p := range plans {
			other := *p
			if other.Round = p.Round%uint64(len(plans)) + 1; plans[other.Round-1].Phase == p.Phase {
				continue
			}
			if err := agreement.CheckPlan(e, &other); !errors.Is(err, agreement.ErrTerms) || !strings.Contains(err.Error(), "phase is "+p.Phase) {
				t.Errorf("%s: the plan of round %d is taken in round %d: %v", settings, p.Round, other.Round, err)
			}
		}
	}
}

// A device contributes what the simulator has it contribute, and keeps what it ends with.
func TestDevicesOfStatisticsAsSimulated(t *testing.T) {
	for _, settings := range []string{
		"algorithm=ssp-c rank=2 rounds=1", "algorithm=dp-cmf rank=2 rounds=1", "algorithm=dpals statistics.per-user=9 rounds=1",
		"algorithm=ada-dpals epsilon=inf rank=3 rounds=1", "algorithm=private-item-bias seed=3", "algorithm=ssp-i statistics.resample=2 statistics.top-items=0.2 rounds=1", "algorithm=ssp-c features=none feedback=implicit rounds=1",
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			sim := opened.Experiment(t, "data=synthetic:small-80 split.test=0 "+settings)
			e := opened.Joined(t, sim)
			const user = 41
			id := sim.Data.UserIDs[user]
			alone := writeRatings(t, sim.Data, "mine", false, func(u, _ int32) bool { return int(u) == user })
			party := partyOf(t, e, algorithm.PartyData{}, alone)
			items, _ := sim.Train.Row(user)
			checkCounts(t, party, len(items), 0)
			f := opened.Federation(t, sim)
			checkSame(t, "user "+id, e, party, sim, f.Trainers[user], sim.Schedule.Rounds())
			trained := f.Trainers[user].(*fedsspuser.User)
			u := model.NewMatrix(1, len(trained.U))
			copy(u.Row(0), trained.U)
			want := []model.Embeddings{model.NewEmbeddings("user_embeddings", u, []string{id})}
			if slices.ContainsFunc(e.Schedule, func(s protocol.Step) bool { return s.Releases[0].Name == "bias" }) {
				bias := model.NewMatrix(1, 1)
				bias.Row(0)[0] = trained.Bias
				want = append(want, model.NewEmbeddings("user_bias", bias, []string{id}))
			}
			checkResult(t, party, want...)
		})
	}
}
