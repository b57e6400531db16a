package algorithm

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Setup holds the input of [Algorithm.Open], and the parts that Open sets.
type Setup struct {
	// Config has every auto replaced, except those autos that follow from the noise. Open replaces them.
	Config config.Config
	// Data lists users and items, the rating scale and what else is public. In a deployment it has no ratings.
	Data *dataset.Set
	// Train holds the training ratings by user; nil in a deployment.
	Train *dataset.Rows
	// Ratings holds the ratings of Train, one after the other.
	Ratings dataset.Ratings
	// Held divides the users into trained and held-out users, with implicit feedback; else nil.
	Held *split.HoldOut
	// Features holds the features of the items; nil if there are none, or if nothing is learned from them.
	Features *dataset.ItemFeatures
	Cohort   protocol.Cohort
	// Alone: parties train by themselves.
	Alone bool
	// Start holds what earlier sessions released; nil for a session that starts from nothing.
	Start *Start

	// Schedule lists the releases of the rounds, noise included. Open sets it.
	Schedule protocol.Schedule
	Privacy  Privacy
}

// Privacy states the promise of a run.
type Privacy struct {
	Budget dp.Budget  // of each client's ledger; Epsilon +Inf without noise
	Run    []dp.Event // upper bound on the cost of the whole run to a client; none without noise
	// Proved states the result of an algorithm's own proof, where the run has no events; elsewhere its accountant is "".
	// Local states, beside Proved, the ε of a user's messages without any trust in a shuffler.
	Proved dp.Result
	Local  float64
	// Law names the noise of a run with an own proof, where it does not follow from the accountant.
	Law dp.NoiseLaw
	// Relation and Sampling belong to such a proof, where they differ from the algorithm's relation and from no sampling; "" elsewhere.
	Relation dp.Relation
	Sampling dp.Sampling
	Claimed  float64 // with replaced noise: the ε that the published analysis would state; else 0
	// NoiseDistance is the samplers' error over the whole run if δ is too small to include it; else 0.
	NoiseDistance float64
}

// Top returns the top of the rating scale, or its float32 value if that is higher, since ratings are float32.
func (s *Setup) Top() float64 { return max(s.Data.Max, float64(float32(s.Data.Max))) }

// Bottom returns the bottom of the rating scale, or its float32 value if that is lower.
func (s *Setup) Bottom() float64 { return min(s.Data.Min, float64(float32(s.Data.Min))) }

// Private reports whether the run promises a finite ε.
func (s *Setup) Private() bool { return Private(s.Config) }

// CheckRanges refuses values outside the ranges of the algorithm's keys. Values that fedsim has chosen are checked, too.
func (s *Setup) CheckRanges() error {
	for _, k := range Of(s.Config).About().Keys {
		if !s.Config.InRange(k) {
			return config.Errorf("%s is %s, which is out of its range", k.Name, s.Config.Text(k))
		}
	}
	return nil
}

// Rows returns the training ratings of all users.
func (s *Setup) Rows() []model.Ratings {
	rows := make([]model.Ratings, s.Data.Users)
	for u := range rows {
		rows[u] = s.Row(u)
	}
	return rows
}

// Row returns a user's training ratings.
func (s *Setup) Row(user int) model.Ratings {
	return rowOf(s.Train, user)
}

// Sources returns the rows of all users. Where the data are packed, each request unpacks its row anew.
func (s *Setup) Sources() model.RatingsByUser { return trainRows{s.Train} }

type trainRows struct{ *dataset.Rows }

// RatingsOf returns a user's row. It unpacks packed data into the buffer.
func (r trainRows) RatingsOf(user int, in *model.Buffer) model.Ratings {
	if !r.Packed() {
		return rowOf(r.Rows, user)
	}
	in.Items, in.Values = r.Into(user, in.Items, in.Values)
	return model.Ratings(*in)
}

// Lend calls hear with the row that Row returns. The row is valid until hear returns ([dataset.Rows.Lend]).
func (s *Setup) Lend(user int, hear func(model.Ratings)) {
	s.Train.Lend(user, func(items []int32, values []float32) {
		hear(model.Ratings{Items: items, Values: values})
	})
}

func rowOf(rows *dataset.Rows, user int) model.Ratings {
	items, values := rows.Row(user)
	return model.Ratings{Items: items, Values: values}
}

// Public reports whether the run is a deployment: no party has all ratings.
func (s *Setup) Public() bool { return s.Train == nil }

// FactsOf returns the facts about a set that choices may depend on.
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

// PublishedSet finds a data set by name among the sets whose counts are published.
func PublishedSet(name string) (read.Entry, bool) {
	for _, known := range read.List() {
		if known.Name == name && known.Ratings > 0 {
			return known, true
		}
	}
	return read.Entry{}, false
}

// ReadFeatures reads the features of a set's items that a configuration asks for, and returns their name too. With auto it reads
// the features that come with the set; nil for none. With auto and others after it, it reads those as well. It returns a [config.Error] if the features cannot be read.
func ReadFeatures(c config.Config, set *dataset.Set) (*dataset.ItemFeatures, string, error) {
	specs := []string{FeatureSpec.Of(c)}
	more, also := strings.CutPrefix(specs[0], "auto,")
	if also || c.IsAuto(FeatureSpec.Key) {
		years := cmp.Or(Of(c).About().Years, "year")
		alone, _, _ := strings.Cut(years, ",")
		specs = []string{"genres," + years, "genres", alone}
		if set.Raters != nil {
			specs = []string{"genres," + years + ",rater", "genres,rater", alone + ",rater", "rater"}
		}
		specs = append(specs, "none")
	}
	if also {
		specs = lists.Map(specs, func(s string) string { return strings.TrimPrefix(s+","+more, "none,") })
	}
	var err error
	for _, spec := range specs { // the first that the set has
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

// UniformSchedule returns the schedule of a run whose rounds all release r. The name of r names the phase, too.
func UniformSchedule(rounds int, r protocol.Release, size int) protocol.Schedule {
	return protocol.Schedule{{Rounds: rounds, Phase: r.Name, Releases: []protocol.Release{r}, Model: size}}
}

// Scale chooses the fixed point of a release: rounding h coordinates to integers adds √h/2 to the sensitivity, and the noise grows
// by the same share of it. For a few coordinates a thousandth is had for nothing. For a vector that may be dense it would take
// integers, and noise on them, far beyond 32 bits: a hundredth then.
func Scale(r protocol.Release) float64 {
	share := 1e-3
	if r.MaxNonZero > 1000 {
		share = 1e-2
	}
	return rounding(r, share)
}

// rounding returns by how much rounding at a scale increases a release's sensitivity, as a fraction of it.
// Given such a fraction in place of a scale, it returns the scale that causes it. Rounding moves each coordinate
// by half a unit. Where two vectors that differ in one unit of privacy are both rounded, it moves their difference by a whole unit.
func rounding(r protocol.Release, scale float64) float64 {
	if r.Sensitivity > 0 {
		return math.Sqrt(float64(min(2*r.MaxNonZero, r.Len))) / (scale * r.Sensitivity)
	}
	return math.Sqrt(float64(r.MaxNonZero)) / (2 * scale * r.L2)
}

// ErrPartyData is wrapped by the error for data that do not hold what a party is said to own.
var ErrPartyData = errors.New("these are not the party's data")

// PartyData says which of the ratings in its data a party of a deployment owns.
type PartyData struct {
	// User is the id of the user whose client it is; "" where the data are of one user.
	User string
	// Part is the number, from 1 to parties, of the organisation's part in the experiment's partition, dealt as a simulation deals
	// it. The partition deals the catalogue (VFL), or the users that IDs list, which must be all users (HFL). 0: the organisation
	// owns what IDs list. A party cannot check what others own: an item or a user that two parties bring is protected by each of
	// them alone.
	Part int
	// IDs lists the items (VFL) or the users (HFL) of an organisation, with or without ratings. Their number is the organisation's
	// weight in every sum, and exact. If IDs followed from the ratings, the weight could reveal a single rating.
	IDs []string
	// Names gives the experiment's name of each user by the user's id in the data, where
	// parties share users and have aligned them (package align); nil: the ids are the names.
	Names map[string]string
	// Kept holds the embeddings of its items that an organisation (VFL) ended with in the last of the sessions from which
	// this session starts; nil: the organisation was not in that session. They never left it.
	Kept []model.Embeddings
	// Timed says that the party is made up, and trains to be timed: every secret coin that decides whether it takes part falls so that
	// it does. Nothing that such a party computes is ever sent.
	Timed bool
}

// Party is one client's side, made from that client's own ratings.
type Party struct {
	// Ratings counts the ratings that the party trains on, for the party itself to see.
	Ratings int
	Trainer Trainer
	// Result returns the part of the model that the party alone ends with, after Finish. The user's embedding and everything that
	// HFL tunes are private and stay with the party. The party may publish the embeddings of its own items (VFL).
	Result func() []model.Embeddings
	// Clipped, if set, counts the party's vectors that were clipped, for the party itself to see.
	Clipped func() Clipped
}

// LocalData holds the training ratings of a party's data, and the places of its items and users in the catalogue.
type LocalData struct {
	Set  *dataset.Set
	Rows *dataset.Rows
	// Items holds the index in the catalogue of each of the set's items; -1 if an item is not
	// listed. Users holds the indices of the set's users, where all parties have the same users; else nil.
	Items, Users []int32
	// Skipped counts the ratings that were left out because their item or user is not listed.
	Skipped int
	// Unlisted counts the skipped ratings whose user is not on the party's own list.
	Unlisted int
}

// UserOf returns the index in the data of the user whose client a party is. It returns -1 if the
// data hold no rating of that user: the user takes part all the same, with an empty record.
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

// IDs returns the id of the user at an index that UserOf gave. For index -1 it returns the id that the party stated.
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

// CheckStated refuses an organisation whose owner states no ids, or states an id twice. Without stated
// ids its own items or users would follow from its ratings. what says what the ids have to name.
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

// Row returns the ratings of a user of the data, items ascending as in the catalogue. It leaves out
// ratings of items that are not listed, and counts them in Skipped. User -1 has no ratings.
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

// OnePlace makes the federated methods of an [Instance] return an error. Algorithms without clients embed it.
type OnePlace struct{}

var errOnePlace = errors.New("all data are in one place; there is no federation")

// Strategy returns an error: there is no server.
func (OnePlace) Strategy(protocol.SessionID) (Strategy, error) { return nil, errOnePlace }

// ClientSide returns an error: there are no clients.
func (OnePlace) ClientSide() (ClientSide, error) { return nil, errOnePlace }

// Party returns an error: there are no parties.
func (OnePlace) Party(PartyData, *LocalData) (*Party, error) { return nil, errOnePlace }

// Shared returns an error: no server shares a model.
func (OnePlace) Shared([]byte) ([]model.Embeddings, error) { return nil, errOnePlace }

// PartyRows are the users of an organisation that has some of them (HFL): their indices, ascending, what they rated, and where
// each is among the users of its data, or -1.
func (s *Setup) PartyRows(which PartyData, l *LocalData) (users []int32, rows []model.Ratings, at []int, err error) {
	if users, err = s.partyUsers(which); err != nil {
		return nil, nil, nil, err
	}
	places := dataset.Places(l.Set.UserIDs)
	rows, at = make([]model.Ratings, len(users)), make([]int, len(users))
	for i, u := range users {
		k, rated := places[which.IDs[u]]
		if !rated {
			k = -1
		}
		rows[i], at[i] = l.Row(int(k)), int(k)
		delete(places, which.IDs[u])
	}
	if which.Part == 0 { // the users of others are not left out of all data, but not listed in the party's own
		for _, k := range places {
			items, _ := l.Rows.Row(int(k))
			l.Skipped += len(items)
			l.Unlisted += len(items)
		}
	}
	return users, rows, at, nil
}

// partyUsers returns the users of a party, as ascending indices into the stated ids. If these are not all users, the indices are
// not the federation's, which no party knows. They decide nothing but the order in which the party fine-tunes for itself.
func (s *Setup) partyUsers(which PartyData) ([]int32, error) {
	if err := s.CheckPart(which); err != nil {
		return nil, err
	}
	is, must := len(which.IDs), s.Data.Users
	if which.Part == 0 {
		if err := which.CheckStated("the users that are the party's"); err != nil {
			return nil, err
		}
		if is > must {
			return nil, fmt.Errorf("%w: %d users are stated; all parties together have %d", ErrPartyData, is, must)
		}
		return model.Indices(is), nil
	}
	if err := which.CheckStated(fmt.Sprintf("the users of all parties (%d users; part %d is dealt)", must, which.Part)); err != nil {
		return nil, err
	}
	if is != must {
		return nil, fmt.Errorf("%w: %d users are stated, and a part is dealt of all %d; state all, or the party's own without a part", ErrPartyData, is, must)
	}
	all := dataset.Set{Ratings: dataset.Ratings{Users: is}, UserIDs: which.IDs}
	parts, err := split.PartitionUsers(&all, Parties.Int(s.Config), Seed.Of(s.Config))
	if err != nil {
		return nil, err
	}
	return parts[which.Part-1], nil
}
