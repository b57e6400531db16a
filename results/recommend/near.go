package recommend

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"text/tabwriter"
	"text/template"

	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Near names the measure of nearness of two items.
type Near string

const (
	// Cosine is the cosine of the two embeddings.
	Cosine Near = "cosine"
	// Inner is the inner product of the two embeddings. Items with long embeddings, which have many
	// ratings, are near to many items (multi-task paper, appendix D.3).
	Inner Near = "inner"
)

// Neighbour is an item similar to another.
type Neighbour struct {
	Item
	Cosine  *float64 `json:"cosine,omitempty"`  // by Cosine
	Inner   *float64 `json:"inner,omitempty"`   // by Inner
	Ratings int      `json:"ratings,omitempty"` // by Inner: the item's training ratings, if the run's data are known
}

// Nearness returns the number that orders neighbours.
func (n Neighbour) Nearness() float64 {
	if n.Inner != nil {
		return *n.Inner
	}
	return *n.Cosine
}

// Likeness is an item with the items that are most like it, the nearest first.
type Likeness struct {
	Item  Item        `json:"item"`
	Items []Neighbour `json:"items"`
	// Note says that the list is no better than another, because more items than it has are as near as can be; "" if it
	// means something.
	Note string `json:"note,omitempty"`

	by Near
}

// Similar returns the item that text names, and the n items with the nearest embeddings. text is a title or an id, or else a
// part of one title only, in upper or lower case.
func (r *Recommender) Similar(text string, n int, by Near) (*Likeness, error) {
	of, err := findItem(r.Data, text)
	if err != nil {
		return nil, err
	}
	l := &Likeness{Item: itemOf(r.Data, of), by: by}
	if norm(r.saved.Items.Row(of)) == 0 {
		return nil, fmt.Errorf("the embedding of %s is zero: the run learned nothing about it, and nothing is like it", l.Item)
	}
	counts := make([]int, r.Data.Items)
	if by == Inner && r.train != nil { // an inner product is large for items with many ratings
		counts = r.trained()
	}
	near, scores, same := r.nearest(of, n, by)
	for _, j := range near {
		x := Neighbour{Item: itemOf(r.Data, int(j)), Ratings: counts[j]}
		if by == Inner {
			x.Inner = &scores[j]
		} else {
			x.Cosine = &scores[j]
		}
		l.Items = append(l.Items, x)
	}
	if same > n {
		l.Note = fmt.Sprintf("%d items have the same direction (cosine 1.000), so that this list knows nothing of what is similar; train with a larger rank or epsilon, or with features of items", same)
	}
	return l, nil
}

// sameCosine is the least cosine that tells two items apart by nothing: printed, it is 1.000.
const sameCosine = 0.9995

// nearest returns the n items that are nearest to one item, and how near every item is. Items without a direction are left out.
// same counts the items that have the direction of the item: where they are more than n, the list is no better than another.
func (r *Recommender) nearest(of, n int, by Near) (list []int32, scores []float64, same int) {
	v := r.saved.Items.Row(of)
	length := norm(v)
	scores = make([]float64, r.Data.Items)
	var but []int32
	for j := range scores {
		w := r.saved.Items.Row(j)
		own := norm(w)
		switch {
		case j == of || own == 0 || length == 0:
			but = append(but, int32(j))
		case by == Inner:
			scores[j] = model.Dot(v, w)
		default:
			if scores[j] = model.Dot(v, w) / (length * own); scores[j] >= sameCosine {
				same++
			}
		}
	}
	return eval.Top(scores, n, but, of), scores, same
}

// trained counts the training ratings of every item.
func (r *Recommender) trained() []int {
	counts := make([]int, r.Data.Items)
	for u := range r.train.Len() {
		items, _ := r.train.Row(u)
		for _, j := range items {
			counts[j]++
		}
	}
	return counts
}

func norm(v []float64) float64 { return math.Sqrt(model.Dot(v, v)) }

// WriteSimilar writes the n nearest items of every item as a feature of it: a CSV with the columns
// item_id, category, value and weight, which the setting features reads. It leaves out items with a
// nearness of 0 or less; with binary every weight is 1. It returns the number of items with at
// least one neighbour. doubtful counts the items of which more items than n have the same direction.
func (r *Recommender) WriteSimilar(w io.Writer, n int, by Near, binary bool) (items, doubtful int, err error) {
	near, weights, same := make([][]int32, r.Data.Items), make([][]float64, r.Data.Items), make([]int, r.Data.Items)
	protocol.Workers(runtime.GOMAXPROCS(0)).Each(len(near), func(j int) {
		var scores []float64
		near[j], scores, same[j] = r.nearest(j, n, by)
		weights[j] = model.At(scores, near[j])
	})
	out := csv.NewWriter(w)
	err = out.Write([]string{"item_id", "category", "value", "weight"})
	for j := range near {
		if same[j] > n {
			doubtful++
		}
		for i, k := range near[j] {
			x := weights[j][i]
			if x < leastNearness { // the others are no nearer
				break
			}
			if i == 0 {
				items++
			}
			if binary {
				x = 1
			}
			err = cmp.Or(err, out.Write([]string{r.Data.ItemIDs[j], "similar", r.Data.ItemIDs[k], fmt.Sprintf("%.6g", x)}))
		}
	}
	out.Flush()
	return items, doubtful, cmp.Or(err, out.Error())
}

// leastNearness is the least weight that files of features accept.
const leastNearness = 1e-9

// Overlap is the share of nearest items that two models share, by how much items are rated (multi-task paper, figure 11).
type Overlap struct {
	Top     int             `json:"top"` // the number of neighbours compared
	By      Near            `json:"by"`
	Items   int             `json:"items"`   // the number of items that both models know
	Mean    float64         `json:"overlap"` // over them, from 0 to 1
	Buckets []OverlapBucket `json:"buckets"` // the most rated items first
}

// OverlapBucket is the part of an Overlap for one bucket of popularity.
type OverlapBucket struct {
	Items int     `json:"items"`
	Mean  float64 `json:"overlap"` // 0 without items
}

// ErrOtherItems is wrapped by the error for models whose items are not the same.
var ErrOtherItems = errors.New("the models are of other items")

// OverlapOf compares two runs on the same data. It leaves out items that one of the runs has learned nothing about, and items
// with the direction of more items than top, whose nearest are chance.
func OverlapOf(a, b *Recommender, top int, by Near) (*Overlap, error) {
	if !slices.Equal(a.Data.ItemIDs, b.Data.ItemIDs) {
		return nil, fmt.Errorf("%w: one has %d, the other %d; compare runs on the same data", ErrOtherItems, len(a.Data.ItemIDs), len(b.Data.ItemIDs))
	}
	if a.train == nil {
		return nil, fmt.Errorf("%w: a deployment's model comes without the data of which items are popular by", ErrNotOwn)
	}
	counts := a.trained()
	shared := make([]float64, len(counts)) // below 0: not known to both models
	protocol.Workers(runtime.GOMAXPROCS(0)).Each(len(shared), func(j int) {
		if shared[j] = -1; norm(a.saved.Items.Row(j)) == 0 || norm(b.saved.Items.Row(j)) == 0 {
			return
		}
		one, _, same := a.nearest(j, top, by)
		other, _, same2 := b.nearest(j, top, by)
		if max(same, same2) > top {
			return
		}
		both := 0
		for _, k := range one {
			if slices.Contains(other, k) {
				both++
			}
		}
		shared[j] = float64(both) / float64(max(len(one), len(other), 1))
	})
	o, bucket := &Overlap{Top: top, By: by, Buckets: make([]OverlapBucket, eval.PopularityBuckets)}, eval.PopularityRanks(counts, eval.PopularityBuckets)
	for j, x := range shared {
		if x < 0 {
			continue
		}
		b := &o.Buckets[bucket[j]]
		b.Items, b.Mean = b.Items+1, b.Mean+x
		o.Items, o.Mean = o.Items+1, o.Mean+x
	}
	for i := range o.Buckets {
		o.Buckets[i].Mean /= float64(max(o.Buckets[i].Items, 1))
	}
	o.Mean /= float64(max(o.Items, 1))
	return o, nil
}

//go:embed tables.tmpl
var tablesText string

var tables = template.Must(template.New("tables").Funcs(template.FuncMap{"next": func(i int) int { return i + 1 }}).Parse(tablesText))

// printTable writes a table of tables.tmpl.
func printTable(w io.Writer, name string, v any) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return cmp.Or(tables.ExecuteTemplate(t, name, v), t.Flush())
}

// PrintRecommendations writes the result of Recommend as a table.
func (r *Recommender) PrintRecommendations(w io.Writer, list []Recommendation) error {
	unit := map[bool]string{true: "STARS", false: "SCORE"}[r.Stars()]
	return printTable(w, "list", map[string]any{"Unit": unit, "Both": r.Stars() && r.OrdersByMore(), "List": list})
}

// Print writes the items as a table.
func (l *Likeness) Print(w io.Writer) error {
	return printTable(w, "near", map[string]any{"By": l.by, "List": l.Items})
}

// Print writes the overlap as a table.
func (o *Overlap) Print(w io.Writer) error { return printTable(w, "overlap", o) }
