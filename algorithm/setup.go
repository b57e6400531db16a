package algorithm

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Setup is what an algorithm is opened with, and what it sets.
type Setup struct {
	// Config has every auto replaced but those that follow from the noise, which Open
	// replaces.
	Config config.Config
	// Data lists users and items, the rating scale and what else is public. In a deployment
	// it has no ratings.
	Data *dataset.Set
	// Train are the training ratings by user; nil in a deployment.
	Train *dataset.Rows
	// Ratings are the same, one after the other.
	Ratings dataset.Ratings
	// Held is who is held out, with implicit feedback; else nil.
	Held *split.HoldOut
	// Features are those of the items; nil where there are none, or nothing is learned
	// from them.
	Features *dataset.ItemFeatures
	Cohort   protocol.Cohort
	// Alone: parties train by themselves.
	Alone bool

	// Schedule is what the rounds release, noise included. Open sets it.
	Schedule protocol.Schedule
	Privacy  Privacy
}

// Privacy is what a run promises.
type Privacy struct {
	Budget dp.Budget  // of each client's ledger; Epsilon +Inf without noise
	Run    []dp.Event // what the whole run costs a client at the most; none without noise
	// Proved is what a proof of its own says of the run, where there are no events; its accountant is "" elsewhere.
	// Local is what holds of what a user sends where nobody is trusted, beside it.
	Proved dp.Result
	Local  float64
	// Law is the noise of what is proved so, where it does not follow from the accountant.
	Law dp.NoiseLaw
	// Relation and Sampling are those of what is proved so, where they are not the algorithm's and none; "" elsewhere.
	Relation dp.Relation
	Sampling dp.Sampling
	Claimed  float64 // with replaced noise: the ε that the published analysis would state; else 0
	// NoiseDistance is the samplers' error over the whole run if δ is too small to include it; else 0.
	NoiseDistance float64
}

// Top is the top of the rating scale. Ratings are float32, in which it may round up.
func (s *Setup) Top() float64 { return max(s.Data.Max, float64(float32(s.Data.Max))) }

// Bottom is the bottom of the rating scale, likewise.
func (s *Setup) Bottom() float64 { return min(s.Data.Min, float64(float32(s.Data.Min))) }

// Private reports whether the run promises a finite ε.
func (s *Setup) Private() bool { return Private(s.Config) }

// Row is a user's training ratings.
func (s *Setup) Row(user int) model.Ratings {
	return rowOf(s.Train, user)
}

// Sources are the rows of all users, made anew whenever they are asked for where the data are packed.
func (s *Setup) Sources() model.RatingsByUser { return trainRows{s.Train} }

type trainRows struct{ *dataset.Rows }

// RatingsOf implements model.Sources.
func (r trainRows) RatingsOf(user int, in *model.Buffer) model.Ratings {
	if !r.Packed() {
		return rowOf(r.Rows, user)
	}
	in.Items, in.Values = r.Into(user, in.Items, in.Values)
	return model.Ratings{Items: in.Items, Values: in.Values}
}

// Lend calls hear with what Row returns, which holds until hear returns ([dataset.Rows.Lend]).
func (s *Setup) Lend(user int, hear func(model.Ratings)) {
	s.Train.Lend(user, func(items []int32, values []float32) {
		hear(model.Ratings{Items: items, Values: values, Times: s.Train.Times(user)})
	})
}

// rowOf is a row of ratings, with their times where they are known.
func rowOf(rows *dataset.Rows, user int) model.Ratings {
	items, values := rows.Row(user)
	return model.Ratings{Items: items, Values: values, Times: rows.Times(user)}
}

// Public reports whether nobody has the ratings in one place: in a deployment.
func (s *Setup) Public() bool { return s.Train == nil }

// FactsOf are the facts about a set that choices may go by.
func FactsOf(set *dataset.Set) *config.Facts {
	f := &config.Facts{Name: set.Name, Users: set.Users, Items: set.Items, Min: set.Min, Max: set.Max, Shift: set.Shift, Examples: set.Len()}
	if set.Profile != nil {
		f.Columns = len(set.Profile.Columns)
	}
	if known, ok := PublishedSet(set.Name); ok {
		f.Published = known.Ratings
		if set.Raters != nil {
			f.Published -= set.Raters.Len() // whose ratings are public
		}
	}
	return f
}

// PublishedSet finds a data set among those whose counts everybody knows.
func PublishedSet(name string) (read.Entry, bool) {
	for _, known := range read.List() {
		if known.Name == name && known.Ratings > 0 {
			return known, true
		}
	}
	return read.Entry{}, false
}

// readFeatures takes the first of the specifications that the set has.
func readFeatures(set *dataset.Set, specs []string) (*dataset.ItemFeatures, string, error) {
	var err error
	for _, spec := range specs {
		var f *dataset.ItemFeatures
		if f, err = read.Features(set, spec); err == nil {
			return f, spec, nil
		}
		if !errors.Is(err, read.ErrNoFeatures) {
			break
		}
	}
	return nil, "", config.Errorf("features: %w", err)
}

// UniformSchedule returns the schedule of a run whose rounds all release r. The name of r names the
// phase, too.
func UniformSchedule(rounds int, r protocol.Release, size int) protocol.Schedule {
	return protocol.Schedule{{Rounds: rounds, Phase: r.Name, Releases: []protocol.Release{r}, Model: size}}
}

// Scale chooses the fixed point of a release: rounding h coordinates to integers adds √h/2
// to the sensitivity, and the noise grows by the same share of it. For a few
// coordinates a thousandth is had for nothing. For a vector that may be dense it
// would take integers, and noise on them, far beyond 32 bits: a hundredth then.
func Scale(r protocol.Release) float64 {
	share := 1e-3
	if r.MaxNonZero > 1000 {
		share = 1e-2
	}
	return rounding(r, share)
}

// rounding is what rounding adds to a release's sensitivity, as a part of it, at a scale; and the scale at which it adds a
// share. It is half a unit in each coordinate or, where two vectors that differ in one unit of privacy are
// both rounded, a whole one.
func rounding(r protocol.Release, scale float64) float64 {
	if r.Sensitivity > 0 {
		return math.Sqrt(float64(min(2*r.MaxNonZero, r.Len))) / (scale * r.Sensitivity)
	}
	return math.Sqrt(float64(r.MaxNonZero)) / (2 * scale * r.L2)
}

// ErrPartyData is wrapped by the error for data that do not hold what a party is said to
// own.
var ErrPartyData = errors.New("these are not the party's data")

// PartyData says which of the ratings that a party of a deployment has are its own.
type PartyData struct {
	// User is the id of the user whose client it is; "" where the data are of one user.
	User string
	// Part is the number, from 1 to parties, of the part that the experiment's
	// partition deals to the organisation, as a simulation does: of the catalogue (VFL),
	// or of the users that IDs list, which must be all (HFL). 0: it owns what IDs list. Nothing
	// can be checked of what others own: an item or a user that two parties bring is
	// protected by each of them alone.
	Part int
	// IDs are those of the items (VFL) or of the users (HFL) that an organisation has, whether
	// or not there are ratings of them. Its weight in every sum is how many they are, and
	// exact: if it followed from the ratings, one of them could be told from it.
	IDs []string
	// Names are what the experiment calls the users, by their ids in the data, where
	// parties share users and have aligned them (package align); nil: by their ids.
	Names map[string]string
	// Timed says that the party is made up, and trains to be timed: every secret coin that decides whether it takes part falls so that
	// it does. Nothing of it is ever sent.
	Timed bool
}

// Party is one client's side, made from that client's own ratings.
type Party struct {
	// Ratings is on how many it trains, for the party itself to see.
	Ratings int
	Trainer Trainer
	// Result is what it alone ends with, after it finished: the embedding of the user and
	// all that HFL tunes are private and stay with it. The embeddings of its own items
	// (VFL) it may publish.
	Result func() []model.Embeddings
}

// LocalData are the training ratings of a party's data, in terms of the catalogue.
type LocalData struct {
	Set  *dataset.Set
	Rows *dataset.Rows
	// Items are the index in the catalogue of each of the set's items; -1 if it is not
	// listed. Users are those of its users, where all parties have the same; else nil.
	Items, Users []int32
	// Skipped is how many ratings were left out because their item or user is not listed.
	Skipped int
	// Unlisted is how many of them are of users that are not on the party's own list.
	Unlisted int
}

// UserOf is the index in the data of the user whose client a party is; -1 where the data hold
// no rating of that user, who takes part all the same, with an empty record.
func (l *LocalData) UserOf(name string, which PartyData) (int, error) {
	switch users := l.Set.Users; {
	case which.Part != 0:
		return 0, fmt.Errorf("%w: a party of %s is a user, and no part %d of any", ErrPartyData, name, which.Part)
	case len(which.IDs) > 0:
		return 0, fmt.Errorf("%w: a party of %s is a user, and no organisation with %d ids", ErrPartyData, name, len(which.IDs))
	case which.User == "" && users > 1:
		return 0, fmt.Errorf("%w: they are of %d users; say whose they are", ErrPartyData, users)
	case which.User == "":
		return users - 1, nil
	}
	return slices.Index(l.Set.UserIDs, which.User), nil
}

// IDs is the id of the user at an index that UserOf gave: as it was said, where the data do
// not have it.
func (l *LocalData) IDs(user int, which PartyData) []string {
	if user < 0 {
		return []string{which.User}
	}
	return l.Set.UserIDs[user : user+1]
}

// CheckPart refuses a part that no organisation can have.
func (s *Setup) CheckPart(which PartyData) error {
	switch parties := Parties.Int(s.Config); {
	case which.User != "":
		return fmt.Errorf("%w: a party of %s is an organisation, and not the user %q", ErrPartyData, Name.Of(s.Config), which.User)
	case which.Part < 0 || which.Part > parties:
		return fmt.Errorf("%w: there is no part %d; there are 1 to %d", ErrPartyData, which.Part, parties)
	default:
		return nil
	}
}

// CheckStated refuses an organisation whose owner states no ids, or one twice: what are its
// own would follow from its ratings. what says of what they have to be.
func (which PartyData) CheckStated(what string) error {
	if len(which.IDs) == 0 {
		return fmt.Errorf("%w: the ids of %s have to be stated, those without ratings too; if they followed from the ratings, "+
			"one of these could be told from the party's weight, which is public and exact", ErrPartyData, what)
	}
	seen := make(map[string]bool, len(which.IDs))
	for _, id := range which.IDs {
		if seen[id] {
			return fmt.Errorf("%w: the id %q is stated twice", ErrPartyData, id)
		}
		seen[id] = true
	}
	return nil
}

// Row are the ratings of a user of the data, items ascending as in the catalogue. Those
// of items that are not listed are left out, and counted. User -1 has none.
func (l *LocalData) Row(user int) model.Ratings {
	if user < 0 {
		return model.Ratings{}
	}
	items, values := l.Rows.Row(user)
	order := make([]int, 0, len(items))
	for k, i := range items {
		if l.Items[i] >= 0 {
			order = append(order, k)
		}
	}
	l.Skipped += len(items) - len(order)
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(l.Items[items[a]], l.Items[items[b]]) })
	r := model.Ratings{Items: make([]int32, len(order)), Values: make([]float32, len(order))}
	for n, k := range order {
		r.Items[n], r.Values[n] = l.Items[items[k]], values[k]
	}
	return r
}

// IDsAt returns the ids at some indices.
func IDsAt(ids []string, which []int32) []string {
	out := make([]string, len(which))
	for i, k := range which {
		out[i] = ids[k]
	}
	return out
}
