package results

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Near says by what two items are near.
type Near string

const (
	// Cosine is that of the two embeddings.
	Cosine Near = "cosine"
	// Inner is their inner product, by which items with long embeddings, of which much is known,
	// are near to many (multi-task paper, appendix D.3).
	Inner Near = "inner"
)

// Neighbour is an item like another.
type Neighbour struct {
	Item
	Cosine  *float64 `json:"cosine,omitempty"`  // by Cosine
	Inner   *float64 `json:"inner,omitempty"`   // by Inner
	Ratings int      `json:"ratings,omitempty"` // by Inner: of the item that were trained on, where the run's data are known
}

// Nearness is the number by which the item is near.
func (n Neighbour) Nearness() float64 {
	if n.Inner != nil {
		return *n.Inner
	}
	return *n.Cosine
}

// Similar returns the item that a text names, and the n items whose embeddings are nearest
// to its own, the nearest first. The text is a title or an id; else some part of one
// title only, in upper or lower case.
func (r *Recommender) Similar(text string, n int, by Near) (Item, []Neighbour, error) {
	of, err := findItem(r.Data, text)
	if err != nil {
		return Item{}, nil, err
	}
	item := itemOf(r.Data, of)
	if norm(r.saved.Items.Row(of)) == 0 {
		return item, nil, fmt.Errorf("the embedding of %s is zero: the run learned nothing about it, and nothing is like it", item)
	}
	var counts []int // an inner product is large where much is known, which is where these are
	if by == Inner {
		counts = r.trained()
	}
	scores := make([]float64, r.Data.Items)
	var list []Neighbour
	for _, j := range r.nearest(of, n, by, scores) {
		x := Neighbour{Item: itemOf(r.Data, int(j))}
		if counts != nil {
			x.Ratings = counts[j]
		}
		if score := scores[j]; by == Inner {
			x.Inner = &score
		} else {
			x.Cosine = &score
		}
		list = append(list, x)
	}
	return item, list, nil
}

// nearest sets scores to how near items are to one, and returns the n nearest others, without those
// that have no direction.
func (r *Recommender) nearest(of, n int, by Near, scores []float64) []int32 {
	v := r.saved.Items.Row(of)
	length := norm(v)
	var but []int32
	for j := range scores {
		w := r.saved.Items.Row(j)
		own := norm(w)
		switch {
		case j == of || own == 0:
			but = append(but, int32(j))
		case by == Inner:
			scores[j] = model.Dot(v, w)
		default:
			scores[j] = model.Dot(v, w) / (length * own)
		}
	}
	return eval.Top(scores, n, but)
}

// trained counts the ratings of every item that the run was trained on; nil of a deployment's model.
func (r *Recommender) trained() []int {
	if r.train == nil {
		return nil
	}
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

// PrintNeighbours writes what Similar returned as a table.
func PrintNeighbours(w io.Writer, list []Neighbour, by Near) error {
	rows := make([]string, len(list))
	for i, x := range list {
		rows[i] = fmt.Sprintf("%.3f\t%s", x.Nearness(), cells(x.Item))
		if x.Ratings > 0 {
			rows[i] += "\t" + strconv.Itoa(x.Ratings)
		}
	}
	last := ""
	if slices.ContainsFunc(list, func(x Neighbour) bool { return x.Ratings > 0 }) {
		last = "\tRATINGS"
	}
	return printTable(w, strings.ToUpper(string(by)), last, rows)
}

// WriteSimilar writes the n nearest items of every item as a feature of it: a CSV with the columns item_id, category,
// value and weight, in the form that the setting features reads. Items that are not near, by a number that
// is 0 or less, are left out; binary gives all that are there the weight 1. It returns how many items
// have any.
func (r *Recommender) WriteSimilar(w io.Writer, n int, by Near, binary bool) (items int, err error) {
	lines := make([]string, r.Data.Items)
	protocol.Workers(runtime.GOMAXPROCS(0)).Each(len(lines), func(j int) {
		if norm(r.saved.Items.Row(j)) == 0 {
			return
		}
		var b strings.Builder
		scores := make([]float64, r.Data.Items)
		for _, k := range r.nearest(j, n, by, scores) {
			x := scores[k]
			if x < leastNearness {
				break // the rest are no nearer
			}
			if binary {
				x = 1
			}
			fmt.Fprintf(&b, "%s,similar,%s,%.6g\n", quoted(r.Data.ItemIDs[j]), quoted(r.Data.ItemIDs[k]), x)
		}
		lines[j] = b.String()
	})
	if _, err = io.WriteString(w, "item_id,category,value,weight\n"); err != nil {
		return 0, err
	}
	for _, text := range lines {
		if text != "" {
			items++
		}
		if _, err = io.WriteString(w, text); err != nil {
			return 0, err
		}
	}
	return items, nil
}

// leastNearness is the least weight that files of features take.
const leastNearness = 1e-9

// quoted is a field of a CSV file.
func quoted(id string) string {
	if strings.ContainsAny(id, ",\"\r\n") {
		return `"` + strings.ReplaceAll(id, `"`, `""`) + `"`
	}
	return id
}

// Overlap is how many of their nearest items two models have in common, over items by how often they
// were rated (multi-task paper, figure 11).
type Overlap struct {
	Top     int             `json:"top"` // of how many neighbours
	By      Near            `json:"by"`
	Items   int             `json:"items"`   // that both know
	Mean    float64         `json:"overlap"` // over them, from 0 to 1
	Buckets []OverlapBucket `json:"buckets"` // the most rated items first
}

// OverlapBucket is the part of an Overlap of one bucket of popularity.
type OverlapBucket struct {
	Items int     `json:"items"`
	Mean  float64 `json:"overlap"` // 0 without items
}

// ErrOtherItems is wrapped by the error for models whose items are not the same.
var ErrOtherItems = errors.New("the models are of other items")

// OverlapOf compares two runs on the same data. Items that one of them has learned nothing about are
// left out.
func OverlapOf(a, b *Recommender, top int, by Near) (*Overlap, error) {
	if !slices.Equal(a.Data.ItemIDs, b.Data.ItemIDs) {
		return nil, fmt.Errorf("%w: one has %d, the other %d; compare runs on the same data", ErrOtherItems, len(a.Data.ItemIDs), len(b.Data.ItemIDs))
	}
	counts := a.trained()
	if counts == nil {
		return nil, fmt.Errorf("%w: a deployment's model comes without the data of which items are popular by", ErrNotOwn)
	}
	shared := make([]float64, len(counts)) // below 0: not known to both
	protocol.Workers(runtime.GOMAXPROCS(0)).Each(len(shared), func(j int) {
		if shared[j] = -1; norm(a.saved.Items.Row(j)) == 0 || norm(b.saved.Items.Row(j)) == 0 {
			return
		}
		one := a.nearest(j, top, by, make([]float64, len(shared)))
		other := b.nearest(j, top, by, make([]float64, len(shared)))
		both := 0
		for _, k := range one {
			if slices.Contains(other, k) {
				both++
			}
		}
		shared[j] = float64(both) / float64(max(len(one), len(other), 1))
	})
	return overlap(shared, eval.PopularityRanks(counts, eval.PopularityBuckets), top, by), nil
}

func overlap(shared []float64, bucket []uint8, top int, by Near) *Overlap {
	o := &Overlap{Top: top, By: by, Buckets: make([]OverlapBucket, eval.PopularityBuckets)}
	for j, x := range shared {
		if x < 0 {
			continue
		}
		b := &o.Buckets[bucket[j]]
		b.Items, b.Mean = b.Items+1, b.Mean+x
		o.Items, o.Mean = o.Items+1, o.Mean+x
	}
	for i := range o.Buckets {
		if b := &o.Buckets[i]; b.Items > 0 {
			b.Mean /= float64(b.Items)
		}
	}
	if o.Items > 0 {
		o.Mean /= float64(o.Items)
	}
	return o
}

// Print writes it as a table.
func (o *Overlap) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "of the %d nearest by %s, both models share:\n\nITEMS BY RATINGS\tITEMS\tSHARED\n", o.Top, o.By) //nolint:errcheck // Flush says it
	for i, b := range o.Buckets {
		name := fmt.Sprintf("fifth %d", i+1)
		switch i {
		case 0:
			name += ", the most rated"
		case len(o.Buckets) - 1:
			name += ", the least rated"
		}
		fmt.Fprintf(t, "%s\t%d\t%.3f\n", name, b.Items, b.Mean) //nolint:errcheck // likewise
	}
	fmt.Fprintf(t, "all\t%d\t%.3f\n", o.Items, o.Mean) //nolint:errcheck // likewise
	return t.Flush()
}
