package eval

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
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
	Novelty           float64 // mean of log2(n/c), in bits, where c of n users rated the item in training; 1 for c = 0
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
const (
	usersName, ofUsersName, relevantName = "users", "of_users", "relevant"
)

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

// ListQualityOf is the inverse of Named. It passes over other numbers, and returns nil if there are
// no lists.
func ListQualityOf(values map[string]float64) *ListQuality {
	q := &ListQuality{Users: int(values[usersName]), OfUsers: int(values[ofUsersName])}
	if v, ok := values[relevantName]; ok {
		q.Relevant = &v
	}
	for name := range values {
		if at, ok := strings.CutPrefix(name, "precision@"); ok {
			if k, err := strconv.Atoi(at); err == nil {
				q.At = append(q.At, ListMetrics{K: k})
			}
		}
	}
	if q.At == nil {
		return nil
	}
	slices.SortFunc(q.At, func(a, b ListMetrics) int { return a.K - b.K })
	for i := range q.At {
		for _, x := range q.At[i].named() {
			*x.value = values[fmt.Sprintf("%s@%d", x.name, q.At[i].K)]
		}
	}
	return q
}

// Lists measures the lists that a predictor makes of all items. It returns nil without cutoffs, if
// no user has a relevant item, and for held-out users if the predictor is no [Scorer]. Among equal
// predictions the item with the lower index comes first. The result does not depend on the number
// of workers.
func (t *Test) Lists(p model.Predictor, q ListParams, run protocol.Runner) *ListQuality {
	if len(q.Cutoffs) == 0 || len(t.Buckets.of) == 0 {
		return nil
	}
	score, out, most := t.allItems(p), &ListQuality{}, q.MostUsers
	if t.Held != nil {
		most = 0
	}
	users, of := t.wishes(q.Relevant, most)
	if t.Held == nil {
		out.Relevant, out.OfUsers = &q.Relevant, of
	}
	if len(users) == 0 || score == nil {
		return nil
	}
	out.Users = len(users)
	t.list(users, score, slices.Max(q.Cutoffs), run)
	known := newFame(t.train, len(t.Buckets.of))
	for _, k := range q.Cutoffs {
		m := ListMetrics{K: k}
		m.accuracy(users)
		m.diversity(users, known)
		out.At = append(out.At, m)
	}
	return out
}

// listed is a user with a list.
type listed struct {
	user         int
	wanted, list []int32 // wanted ascends
}

// wishes returns at most most users with relevant items in the test part, evenly spread, and the
// number of all such users. Relevant items are the targets of held-out users, or the test ratings
// of at least so many stars. most 0: all.
func (t *Test) wishes(stars float64, most int) (users []listed, of int) {
	wants := func(value float32) bool { return t.Held != nil || value >= float32(stars) }
	var who []int32
	for u := range t.Rows.Len() {
		t.Rows.Lend(u, func(_ []int32, values []float32) {
			if slices.ContainsFunc(values, wants) {
				who = append(who, int32(u))
			}
		})
	}
	of = len(who)
	who = thin(who, most)
	users = make([]listed, len(who))
	for i, u := range who {
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

// allItems returns a function that predicts every item for a user; nil for held-out users if p is
// no Scorer.
func (t *Test) allItems(p model.Predictor) func(user int, out []float64) {
	if t.Held == nil {
		all := make([]int32, len(t.Buckets.of))
		for j := range all {
			all[j] = int32(j)
		}
		return func(user int, out []float64) { p.Predict(user, all, out) }
	}
	s, ok := scorerOf(p)
	if !ok {
		return nil
	}
	return func(user int, out []float64) {
		items, values := t.known.Row(user)
		s.Score(user, items, values, out)
	}
}

// seen returns the items that a user rated outside the test part, or a held-out user's history;
// ascending.
func (t *Test) seen(user int) []int32 {
	items, _ := t.known.Row(user)
	if t.Held != nil || t.Validation == nil {
		return items
	}
	more, _ := t.Validation.Row(user)
	all := slices.Concat(items, more)
	slices.Sort(all)
	return all
}

// thin leaves at most n users, evenly spread; all if n is 0.
func thin(users []int32, n int) []int32 {
	if n == 0 || len(users) <= n {
		return users
	}
	some := make([]int32, n)
	for i := range some {
		some[i] = users[i*len(users)/n]
	}
	return some
}

// list makes the list of each user.
func (t *Test) list(users []listed, score func(user int, out []float64), most int, run protocol.Runner) {
	blocks := (len(users) + rankingBlock - 1) / rankingBlock
	run.Each(blocks, func(block int) {
		scores := make([]float64, len(t.Buckets.of))
		for i := block * rankingBlock; i < min((block+1)*rankingBlock, len(users)); i++ {
			u := &users[i]
			score(u.user, scores)
			u.list = Top(scores, most, t.seen(u.user))
		}
	})
}

// accuracy sets the metrics that depend on the users' relevant items.
func (m *ListMetrics) accuracy(users []listed) {
	for _, u := range users {
		list, best := u.list[:min(m.K, len(u.list))], min(m.K, len(u.wanted))
		var hits, gain, precisions, ideal, first float64
		for place, j := range list {
			if _, hit := slices.BinarySearch(u.wanted, j); !hit {
				continue
			}
			hits++
			gain += discount(place)
			precisions += hits / float64(place+1)
			if first == 0 {
				first = 1 / float64(place+1)
			}
		}
		for place := range best {
			ideal += discount(place)
		}
		m.Recall += hits / float64(best)
		m.FullRecall += hits / float64(len(u.wanted))
		m.Precision += hits / float64(len(list))
		m.NDCG += gain / ideal
		m.MAP += precisions / float64(best)
		m.MRR += first
		m.Hit += min(hits, 1)
	}
	for _, v := range []*float64{&m.Recall, &m.FullRecall, &m.Precision, &m.NDCG, &m.MAP, &m.MRR, &m.Hit} {
		*v /= float64(len(users))
	}
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
}

func newFame(train *dataset.Rows, items int) fame {
	f := fame{ratings: make([]int, items), tail: make([]bool, items)}
	for u := range train.Len() {
		train.Lend(u, func(row []int32, _ []float32) {
			for _, j := range row {
				f.ratings[j]++
			}
			if len(row) > 0 {
				f.users++
			}
		})
	}
	var order []int
	for j, n := range f.ratings {
		if n > 0 {
			order = append(order, j)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return f.ratings[a] - f.ratings[b] })
	for _, j := range order[:min(len(order), max(1, len(order)/tailShare))] {
		f.tail[j] = true
	}
	return f
}

// tailShare is the number of items for each item of the tail: RecBole's default.
const tailShare = 10
