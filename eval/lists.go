package eval

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// ListParams says which lists of recommendations to measure.
type ListParams struct {
	// Cutoffs holds the lengths K of lists, ascending and each at least 1; without any, nothing is
	// measured.
	Cutoffs []int
	// Relevant is the fewest stars of a test rating whose item is a hit. With implicit feedback
	// every target is a hit.
	Relevant float64
	// MostUsers limits the users that get a list; 0 means all. With implicit feedback all held-out
	// users get a list.
	MostUsers int
}

// ListQuality is the quality of lists of recommendations. A list ranks all items except those the
// user rated in training or in the validation part, or has in the history.
type ListQuality struct {
	Users    int      // users with a list
	OfUsers  int      // users with a relevant item in the test part
	Relevant *float64 // fewest stars of a relevant item; nil with implicit feedback
	At       []ListMetrics
	ByUser   *ByUser // metrics of one user's list, as in recall@10; nil if it was read from a file
}

// ListMetrics holds the metrics of lists of K items. Unless stated otherwise they are means over
// users, with L a user's list and T the user's relevant items.
type ListMetrics struct {
	K int
	// Recall is |L and T| / min(K, |T|), as in LensKit and Liang et al.; FullRecall is |L and T| /
	// |T|, as in RecBole.
	Recall, FullRecall float64
	Precision          float64 // |L and T| / |L|
	NDCG               float64 // with 1/log2(rank+1), divided by the value of min(K, |T|) hits at the first ranks
	MAP                float64 // sum over hits of the precision up to them, / min(K, |T|)
	MRR                float64 // 1/rank of the first hit, 0 without a hit
	Hit                float64 // share of the users with a hit

	ItemCoverage      float64 // share of all items that are in at least one list
	GiniIndex         float64 // of the items' numbers of lists: 0 if all are equal
	AveragePopularity float64 // mean number of training ratings of an item of L
	TailPercentage    float64 // share of L in the tail: the tenth of the items in training with the fewest ratings
	Novelty           float64 // mean of log2(n/c), in bits, where c of n users rated the item in training; c = 1 if none did
}

// NamedValue is a number with its name in files.
type NamedValue struct {
	Name  string
	Value float64
}

// namedField points to the field of a metric.
type namedField struct {
	name  string
	value *float64
}

// named returns the metrics by name, without the cutoff: RecBole's names, in small letters.
func (m *ListMetrics) named() []namedField {
	return []namedField{
		{"recall", &m.Recall}, {"full_recall", &m.FullRecall}, {"precision", &m.Precision}, {"ndcg", &m.NDCG}, {"map", &m.MAP}, {"mrr", &m.MRR}, {"hit", &m.Hit},
		{"itemcoverage", &m.ItemCoverage}, {"giniindex", &m.GiniIndex}, {"averagepopularity", &m.AveragePopularity},
		{"tailpercentage", &m.TailPercentage}, {"novelty", &m.Novelty},
	}
}

// Names of numbers that are no metric.
const usersName, ofUsersName, relevantName = "users", "of_users", "relevant"

// Named returns all numbers by name, metrics with the cutoff as in recall@10.
func (q *ListQuality) Named() []NamedValue {
	list := []NamedValue{{usersName, float64(q.Users)}, {ofUsersName, float64(q.OfUsers)}}
	if q.Relevant != nil {
		list = append(list, NamedValue{relevantName, *q.Relevant})
	}
	for i := range new(ListMetrics).named() {
		for at := range q.At {
			x := q.At[at].named()[i]
			list = append(list, NamedValue{fmt.Sprintf("%s@%d", x.name, q.At[at].K), *x.value})
		}
	}
	return list
}

// Lists measures the lists that a predictor makes of all items, in the order of [Top]. It returns nil without cutoffs, if no user has a
// relevant item, and for held-out users if the predictor is no [Scorer].
func (t *Test) Lists(p model.Predictor, q ListParams, run protocol.Runner) *ListQuality {
	users, of := t.listsOf(t.allItems(p), q, run)
	if len(users) == 0 {
		return nil
	}
	out := &ListQuality{Users: len(users), ByUser: &ByUser{values: make(map[string][]float64)}}
	for _, u := range users {
		out.ByUser.users = append(out.ByUser.users, u.user)
	}
	if t.Held == nil {
		out.Relevant, out.OfUsers = &q.Relevant, of
	}
	for _, k := range q.Cutoffs {
		m := ListMetrics{K: k}
		m.accuracy(users, out.ByUser)
		m.diversity(users, t.fame)
		out.At = append(out.At, m)
	}
	return out
}

// listed is a user with its relevant items, ascending, and either the list or what [Test.Sampled] draws.
type listed struct {
	user         int
	wanted, list []int32
	ranks        []int // of the relevant items among their samples
	candidates   int   // items that the user has not rated in any part, and one relevant item
}

// wishes returns at most most users (0: all) with relevant items in the test part, evenly spread, and the number of all such users. Relevant
// items are the targets of held-out users, or the test ratings of at least so many stars.
func (t *Test) wishes(stars float64, most int) (users []listed, of int) {
	wants := func(value float32) bool { return t.Held != nil || value >= float32(stars) }
	asked := model.Indices(t.Rows.Len())
	if t.Held != nil {
		asked = t.Held.Test.Users
	}
	var who []int32
	for _, u := range asked {
		t.Rows.Lend(int(u), func(_ []int32, values []float32) {
			if slices.ContainsFunc(values, wants) {
				who = append(who, u)
			}
		})
	}
	of = len(who)
	n := of
	if most > 0 {
		n = min(most, of)
	}
	users = make([]listed, n)
	for i := range users {
		u := who[i*of/n]
		users[i].user = int(u)
		t.Rows.Lend(int(u), func(items []int32, values []float32) {
			for k, x := range values {
				if wants(x) {
					users[i].wanted = append(users[i].wanted, items[k])
				}
			}
		})
	}
	return users, of
}

// scoring scores every item for a user.
type scoring func(user int, out []float64)

// allItems returns a function that scores every item for a user; nil for held-out users if p is no
// Scorer.
func (t *Test) allItems(p model.Predictor) scoring {
	if t.Held == nil {
		all := model.Indices(len(t.Buckets.of))
		return func(user int, out []float64) {
			p.Predict(user, all, out)
			t.known.Lend(user, func(items []int32, _ []float32) { model.Order(p, items, out) })
		}
	}
	if s, ok := model.As[Scorer](p); ok {
		return t.byHistory(s)
	}
	return nil
}

// byHistory scores by what is known of a held-out user.
func (t *Test) byHistory(s Scorer) scoring {
	return func(user int, out []float64) {
		items, values := t.known.Row(user)
		s.Score(user, items, values, out)
	}
}

// seen returns the items that a user rated outside the test part, or a held-out user's history;
// ascending.
func (t *Test) seen(user int) []int32 {
	items, _ := t.known.Row(user)
	if t.Held != nil && !t.Held.Seen || t.Validation == nil {
		return items
	}
	more, _ := t.Validation.Row(user)
	all := slices.Concat(items, more)
	slices.Sort(all)
	return all
}

// accuracy sets the metrics that depend on the users' relevant items, and notes each user's.
func (m *ListMetrics) accuracy(users []listed, each *ByUser) {
	var one ListMetrics
	sums, ofOne := m.judging(), one.judging()
	values := make([][]float64, len(sums))
	for _, u := range users {
		one = accuracyOf(u.wanted, u.list, m.K)
		for i, of := range ofOne {
			*sums[i].value += *of.value
			values[i] = append(values[i], *of.value)
		}
	}
	for i, sum := range sums {
		*sum.value /= float64(len(users))
		each.values[fmt.Sprintf("%s@%d", sum.name, m.K)] = values[i]
	}
}

// judging returns the metrics that depend on the users' relevant items, by name.
func (m *ListMetrics) judging() []namedField { return m.named()[:7] }

// accuracyOf returns the metrics of one user's list that depend on the user's relevant items.
// wanted holds those items, ascending, and list is cut to its first k items.
func accuracyOf(wanted, list []int32, k int) (m ListMetrics) {
	list = list[:min(k, len(list))]
	best := min(k, len(wanted))
	var hits, gain, precisions, ideal float64
	for place, j := range list {
		if _, hit := slices.BinarySearch(wanted, j); !hit {
			continue
		}
		hits++
		gain += discount(place)
		precisions += hits / float64(place+1)
		if m.MRR == 0 {
			m.MRR = 1 / float64(place+1)
		}
	}
	for place := range best {
		ideal += discount(place)
	}
	m.Recall, m.FullRecall, m.Precision = hits/float64(best), hits/float64(len(wanted)), hits/float64(max(1, len(list)))
	m.NDCG, m.MAP, m.Hit = gain/ideal, precisions/float64(best), min(hits, 1)
	return m
}

// ListMetric returns the function that gives one user's value of a metric, named as in ndcg@10. Its
// arguments are the user's relevant items, ascending and at least one, and the user's list. k is the
// cutoff. Metrics over all lists at once, such as the coverage, have no value of one user.
func ListMetric(name string) (of func(wanted, list []int32) float64, k int, err error) {
	base, cutoff, _ := strings.Cut(name, "@")
	var names []string
	at := -1
	for i, f := range new(ListMetrics).judging() {
		names = append(names, f.name)
		if f.name == base {
			at = i
		}
	}
	if k, err = strconv.Atoi(cutoff); at < 0 || err != nil || k < 1 {
		return nil, 0, fmt.Errorf("%q is no metric of one user's list; there are %s, each with a length, as in ndcg@10", name, strings.Join(names, ", "))
	}
	return func(wanted, list []int32) float64 {
		m := accuracyOf(wanted, list, k)
		return *m.judging()[at].value
	}, k, nil
}

// JudgeList returns one user's values of all metrics that [ListMetric] knows, at one cutoff.
func JudgeList(wanted, list []int32, k int) []NamedValue {
	m := accuracyOf(wanted, list, k)
	return lists.Map(m.judging(), func(f namedField) NamedValue { return NamedValue{fmt.Sprintf("%s@%d", f.name, k), *f.value} })
}

// EachList calls hear with the list of every user that [Test.Lists] measures, in the order of users:
// the relevant items, ascending, and the first items of the list, as many as the largest cutoff. It
// returns false where Lists returns nil.
func (t *Test) EachList(p model.Predictor, q ListParams, run protocol.Runner, hear func(user int, wanted, list []int32)) bool {
	users, _ := t.listsOf(t.allItems(p), q, run)
	for _, u := range users {
		hear(u.user, u.wanted, u.list)
	}
	return len(users) > 0
}

// listsOf returns what [Test.scored] does, each user with a list.
func (t *Test) listsOf(score scoring, q ListParams, run protocol.Runner) (users []listed, of int) {
	return t.scored(score, q, run, func(u *listed, scores []float64) {
		u.list = Top(scores, slices.Max(q.Cutoffs), t.seen(u.user), u.user)
	})
}

// scored calls f with every user that is to get a list and the scores of all items, and returns these users and the number of all
// users with a relevant item. There are none without cutoffs or scores. Some users share the memory for scores.
func (t *Test) scored(score scoring, q ListParams, run protocol.Runner, f func(u *listed, scores []float64)) (users []listed, of int) {
	if len(q.Cutoffs) == 0 || len(t.Buckets.of) == 0 || score == nil {
		return nil, 0
	}
	if t.Held != nil {
		q.MostUsers = 0
	}
	users, of = t.wishes(q.Relevant, q.MostUsers)
	run.Each((len(users)+rankingBlock-1)/rankingBlock, func(block int) {
		scores := make([]float64, len(t.Buckets.of))
		for i := block * rankingBlock; i < min((block+1)*rankingBlock, len(users)); i++ {
			score(users[i].user, scores)
			f(&users[i], scores)
		}
	})
	return users, of
}

// diversity sets the metrics that depend on the recommended items alone.
func (m *ListMetrics) diversity(users []listed, f fame) {
	shown := make([]int, len(f.ratings))
	var total int
	for _, u := range users {
		list := u.list[:min(m.K, len(u.list))]
		var popularity, tail, bits float64
		for _, j := range list {
			shown[j]++
			popularity += float64(f.ratings[j])
			bits += math.Log2(float64(f.users) / float64(max(f.ratings[j], 1)))
			if f.tail[j] {
				tail++
			}
		}
		total += len(list)
		n := float64(len(list))
		m.AveragePopularity += popularity / n
		m.TailPercentage += tail / n
		m.Novelty += bits / n
	}
	for _, v := range []*float64{&m.AveragePopularity, &m.TailPercentage, &m.Novelty} {
		*v /= float64(len(users))
	}
	slices.Sort(shown)
	never, _ := slices.BinarySearch(shown, 1)
	items := float64(len(shown))
	m.ItemCoverage = 1 - float64(never)/items
	for i, n := range shown {
		m.GiniIndex += (2*float64(i+1) - items - 1) * float64(n)
	}
	m.GiniIndex /= items * float64(total)
}

// fame says how popular items are.
type fame struct {
	ratings []int  // of each item in training
	tail    []bool // whether the item is in the tail: the least rated tenth of the rated items
	users   int    // users with a rating in training
	mean    float64
}

func newFame(train dataset.Ratings) fame {
	f := fame{ratings: make([]int, train.Items), tail: make([]bool, train.Items)}
	rated := make([]bool, train.Users)
	train.Each(func(u, j int32, v float32) {
		f.ratings[j]++
		f.mean += float64(v)
		if !rated[u] {
			rated[u] = true
			f.users++
		}
	})
	f.mean /= float64(train.Len())
	order := slices.DeleteFunc(model.Indices(train.Items), func(j int32) bool { return f.ratings[j] == 0 })
	slices.SortStableFunc(order, func(a, b int32) int { return f.ratings[a] - f.ratings[b] })
	for _, j := range order[:min(len(order), max(1, len(order)/tailShare))] {
		f.tail[j] = true
	}
	return f
}

// tailShare is the number of items for each item of the tail: RecBole's default.
const tailShare = 10
