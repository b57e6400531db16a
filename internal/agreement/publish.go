package agreement

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// ErrTerms is wrapped by the error for stated terms that differ from the terms of the
// experiment: noise, bounds, cohort or budget. The error names each, with the right value.
var ErrTerms = errors.New("these are not the terms of the experiment")

// Publish makes the agreement of the parties of a deployment: the configuration as it is deployed ([algorithm.Deployed]), every
// auto replaced, and the terms that follow. It looks at no rating. It returns the errors of Open; there must be a session.
func Publish(c config.Config, f Facts, session protocol.SessionID) (*Public, error) {
	c, err := algorithm.Deployed(c)
	if err != nil {
		return nil, err
	}
	e, err := openFacts(c, f, session, nil)
	if err != nil {
		return nil, err
	}
	terms, err := termsOf(e)
	if err != nil {
		return nil, err
	}
	var agreed config.Config // keys that each party sets for itself stay at their defaults
	for _, k := range agreedKeys(e.Config) {
		agreed.Take(k, e.Config)
	}
	return &Public{Session: session, Config: about(agreed, f), Facts: f, Terms: terms}, nil
}

// Of makes the agreement of the parties of an experiment's deployment. Nothing in it depends on a rating. Where privacy is per
// rating, Of refuses a δ that is small enough only because of the number of ratings.
func Of(e *experiment.Experiment, session protocol.SessionID) (*Public, error) {
	if e.Alone {
		return nil, errors.New("agreement: parties that train alone have nothing to agree on")
	}
	f, err := FactsOf(e.Config, e.Data)
	if err != nil {
		return nil, err
	}
	f.Start = StartOf(e.Start)
	return Publish(e.Config, f, session)
}

// Open makes the stated experiment without any ratings. Server, aggregator and clients of a deployment have it in common, and a
// party adds its own data by [experiment.Experiment.Party] with [CheckPlan]. Open checks and derives everything again. Other terms
// are an error that wraps ErrTerms. A configuration that cannot be deployed, and facts that fit no configuration, are errors that
// say what is wrong.
func Open(p *Public) (*experiment.Experiment, error) { return open(p, nil) }

func open(p *Public, start *algorithm.Start) (*experiment.Experiment, error) {
	c, err := algorithm.Deployed(p.Config)
	if err != nil {
		return nil, err
	}
	if err = same(p.Config, c, "as it is deployed"); err != nil {
		return nil, err
	}
	e, err := openFacts(c, p.Facts, p.Session, start)
	if err != nil {
		return nil, err
	}
	if err = same(p.Config, e.Config, "with nothing left open"); err != nil {
		return nil, err
	}
	if err = takeUp(e, p.Terms); err != nil {
		return nil, err
	}
	return e, nil
}

// agreedKeys lists the keys of the algorithm that all parties of a deployment agree on. A key of another algorithm is not
// agreed on, and a key such as the place of the data belongs to one party.
func agreedKeys(c config.Config) []*config.Key {
	return slices.DeleteFunc(algorithm.Of(c).About().Used(), func(k *config.Key) bool { return k.Scope == config.Own || k.Scope == config.Simulated })
}

// Other names the settings that another agreement has otherwise, in order.
func (p *Public) Other(o *Public) []string {
	other := slices.DeleteFunc(agreedKeys(p.Config), func(k *config.Key) bool { return p.Config.Text(k) == o.Config.Text(k) })
	return slices.Sorted(slices.Values(lists.Map(other, func(k *config.Key) string { return k.Name })))
}

// stated stands for features, and for a start, that are in the facts. The files that the server read them from are private.
const stated = "stated"

// about is a configuration with what the facts say in place of where it came from.
func about(c config.Config, f Facts) config.Config {
	algorithm.Data.Set(&c, f.Name)
	algorithm.StartFrom.Set(&c, "")
	if f.Start != nil {
		algorithm.StartFrom.Set(&c, stated)
	}
	switch {
	case len(f.Features) > 0:
		algorithm.FeatureSpec.Set(&c, stated)
	case usesFeatures(c):
		algorithm.FeatureSpec.Set(&c, "none")
	}
	return c
}

func usesFeatures(c config.Config) bool {
	return algorithm.Of(c).About().Features != algorithm.NoFeatures
}

// same returns an error that names the agreed keys with another value than in the right configuration.
func same(is, right config.Config, how string) error {
	var errs problems.List
	for _, k := range agreedKeys(is) {
		a, b := is.Text(k), right.Text(k)
		errs.If(a != b, "%s is %s; %s it is %s", k.Name, a, how, b)
	}
	return config.Wrap(errors.Join(errs...))
}

// FactsOf returns the facts that parties need of a data set, with a configuration: the number of users, the items' ids, the scale.
// The facts are in a set without ratings too ([read.Items], with Users counted from the federation's clients and, for VFL,
// UserIDs). Where features of the items are learned from they are read, which may fail.
func FactsOf(c config.Config, set *dataset.Set) (Facts, error) {
	_, published := algorithm.PublishedSet(set.Name)
	f := Facts{Name: set.Name, Published: published, Min: set.Min, Max: set.Max, Users: set.Users, ItemIDs: set.ItemIDs}
	users, genres := publicLists(c)
	if users {
		f.UserIDs = set.UserIDs
	}
	if genres {
		f.Genres = set.Genres
	}
	if set.Profile != nil && algorithm.Of(c).About().Profiles {
		f.Profile = set.Profile.Columns
	}
	if !usesFeatures(c) {
		return f, nil
	}
	features, _, err := algorithm.ReadFeatures(c, set)
	if err != nil {
		return f, err
	}
	if features != nil {
		f.Features = features.Categories
	}
	return f, nil
}

// publicLists reports which lists the parties need besides the list of items: users, to
// line up the rows that parties share in VFL, and genres, to deal items by them.
func publicLists(c config.Config) (users, genres bool) {
	a := algorithm.Of(c).About()
	return a.Clients == algorithm.ItemParties, a.Genres != nil && a.Genres(c)
}

// openFacts makes the experiment of a configuration and facts, without ratings. start holds the releases that the
// session starts from; nil where only the statement of them is known.
func openFacts(c config.Config, f Facts, session protocol.SessionID, start *algorithm.Start) (*experiment.Experiment, error) {
	if session == (protocol.SessionID{}) {
		return nil, errors.New("agreement: there is no session; a deployment draws one when it starts first")
	}
	if err := f.Validate(c); err != nil {
		return nil, fmt.Errorf("agreement: facts about %q: %w", f.Name, err)
	}
	features, err := dataset.StatedFeatures(f.Features, f.ItemIDs)
	if err != nil {
		return nil, fmt.Errorf("agreement: facts about %q: features: %w", f.Name, err)
	}
	set := &dataset.Set{
		Name: f.Name, Min: f.Min, Max: f.Max, Ratings: dataset.Ratings{Users: f.Users, Items: len(f.ItemIDs)},
		UserIDs: f.UserIDs, ItemIDs: f.ItemIDs, Genres: f.Genres, Raters: f.Raters(),
	}
	if len(f.Profile) > 0 {
		set.Profile = &dataset.Profile{Columns: f.Profile}
	}
	if start == nil {
		if start, err = f.Start.start(); err != nil {
			return nil, fmt.Errorf("agreement: facts about %q: %w", f.Name, err)
		}
	}
	e, err := experiment.OpenPublic(about(c, f), set, features, session, start)
	if err != nil {
		return nil, err
	}
	for _, step := range e.Schedule {
		sum := 0
		for _, r := range step.Releases {
			sum += r.Len
		}
		if sum > maxCoordinates {
			return nil, fmt.Errorf("agreement: facts about %q: with rank %d a round of phase %s sums %d coordinates of every client; at most %d",
				f.Name, int(algorithm.Rank.Or(e.Config, 1)), step.Phase, sum, maxCoordinates)
		}
	}
	return e, nil
}

// Bounds on stated numbers, far beyond any published set. Larger numbers can only be meant to exhaust the memory of the reader.
const (
	maxIndex       = 1 << 22 // users, and items
	maxCoordinates = 1 << 27 // of shared embeddings, and of what is summed in a round: 1 GiB of floats
)

// Validate reports everything that is wrong with the facts.
func (f Facts) Validate(c config.Config) error {
	var errs problems.List
	errs.If(f.Name == "" || len(f.Name) > 255 || !utf8.ValidString(f.Name), "the name is not a text of 1 to 255 bytes in UTF-8")
	if _, published := algorithm.PublishedSet(f.Name); published != f.Published {
		errs.Add("it is said that counts of a set of this name are published: %t; as far as is known here: %t", f.Published, published)
	}
	least := 0.
	if algorithm.Of(c).About().Profiles { // labels may be negative
		least = -math.MaxFloat64
	}
	errs.If(!(f.Min >= least && f.Min < f.Max) || math.IsInf(f.Max, 1),
		"the rating scale is %v to %v; there must be two finite numbers, the lower first and not negative", f.Min, f.Max)
	if lo, hi := algorithm.RatingMin.Or(c, f.Min), algorithm.RatingMax.Or(c, f.Max); lo != f.Min || hi != f.Max {
		errs.Add("the rating scale is %v to %v; the configuration states %v to %v", f.Min, f.Max, lo, hi)
	}
	if items := len(f.ItemIDs); f.Users < 1 || f.Users > maxIndex || items < 1 || items > maxIndex {
		errs.Add("there are %d users and %d items; of each at least 1 and at most %d", f.Users, items, maxIndex)
	} else if rank := int(algorithm.Rank.Or(c, 1)); max(f.Users, items)*rank > maxCoordinates {
		errs.Add("embeddings of %d users and %d items at rank %d are too many; at most %d coordinates of either", f.Users, items, rank, maxCoordinates)
	}
	errs = append(errs, checkIDs("item", f.ItemIDs))
	method := algorithm.Of(c).About()
	errs.If(f.Start != nil && !method.Has(algorithm.StartFrom.Key), "a start is stated; a session of %s starts from nothing", method.Name)
	errs.If(len(f.Donors) > 0 && (method.Donors == nil || !method.Donors(c)), "%d users give their ratings openly; this session of %s learns from no such ratings", len(f.Donors), method.Name)
	others := make(map[string]bool, len(f.Donors))
	for i := range f.Donors {
		errs = append(errs, f.checkGift(&f.Donors[i], others))
	}
	users, genres := publicLists(c)
	switch {
	case users && len(f.UserIDs) != f.Users:
		errs.Add("%d ids for %d users; parties that hold items line up rows by them", len(f.UserIDs), f.Users)
	case users:
		errs = append(errs, checkIDs("user", f.UserIDs))
	case len(f.UserIDs) > 0:
		errs.Add("the ids of %d users are stated; %s does not need them", len(f.UserIDs), algorithm.Name.Of(c))
	}
	switch {
	case genres && len(f.Genres) != len(f.ItemIDs):
		errs.Add("genres of %d items are stated; there are %d, which are dealt by them", len(f.Genres), len(f.ItemIDs))
	case !genres && len(f.Genres) > 0:
		errs.Add("genres of %d items are stated; nothing is dealt by them", len(f.Genres))
	}
	errs.If(len(f.Features) > 0 && !usesFeatures(c),
		"%d categories of features are stated; %s learns from none", len(f.Features), algorithm.Name.Of(c))
	errs.If(len(f.Profile) > 0 && !algorithm.Of(c).About().Profiles,
		"%d features of users are stated; %s learns from none", len(f.Profile), algorithm.Name.Of(c))
	if len(f.Profile) > 0 {
		errs = append(errs, checkIDs("feature", f.Profile))
	}
	return errors.Join(errs...)
}

// checkIDs reports the first id that could not be told from others.
func checkIDs(what string, ids []string) error {
	seen := make(map[string]int, len(ids))
	for i, id := range ids {
		if id == "" || !utf8.ValidString(id) {
			return fmt.Errorf("the id of %s %d is %q; it must be a text in UTF-8", what, i, id)
		}
		if before, twice := seen[id]; twice {
			return fmt.Errorf("%ss %d and %d have one id, %q", what, before, i, id)
		}
		seen[id] = i
	}
	return nil
}
