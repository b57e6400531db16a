package recommend

import (
	"cmp"
	"encoding/csv"
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

// Similar returns the item that text names, and the n items with the nearest embeddings, nearest
// first. text is a title or an id, or else a part of one title only, in upper or lower case.
func (r *Recommender) Similar(text string, n int, by Near) (Item, []Neighbour, error) {
	of, err := findItem(r.Data, text)
	if err != nil {
		return Item{}, nil, err
	}
	item := itemOf(r.Data, of)
	if norm(r.saved.Items.Row(of)) == 0 {
		return item, nil, fmt.Errorf("the embedding of %s is zero: the run learned nothing about it, and nothing is like it", item)
	}
	var counts []int // an inner product is large for items with many ratings, which these count
	if by == Inner {
		counts = r.trained()
	}
	scores := make([]float64, r.Data.Items)
	var list []Neighbour
	near, _ := r.nearest(of, n, by, scores)
	for _, j := range near {
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

// sameCosine is the least cosine that tells two items apart by nothing: printed, it is 1.000.
const sameCosine = 0.9995

// Doubt says that a list of similar items is no better than another, because more items than it has are as near as
// can be; "" if the list means something.
func (r *Recommender) Doubt(list []Neighbour, by Near) string {
	if by != Cosine || len(list) == 0 || list[len(list)-1].Nearness() < sameCosine {
		return ""
	}
	of := r.saved.Items.Row(slices.Index(r.Data.ItemIDs, list[0].ID)) // as near as the item that was asked for
	n := 0
	for j := range r.Data.Items {
		if w := r.saved.Items.Row(j); norm(w) > 0 && model.Dot(of, w) >= sameCosine*norm(of)*norm(w) {
			n++
		}
	}
	if n -= 1; n <= len(list) { // without the item itself
		return ""
	}
	return fmt.Sprintf("%d items have the same direction (cosine 1.000), so that this list knows nothing of what is similar; train with a larger rank or epsilon, or with features of items", n)
}

// nearest sets scores to the nearness of all items to one item, and returns the n nearest others. open says that more items
// than n have the direction of the item, so that the list is no better than another. Items without a direction are left out.
func (r *Recommender) nearest(of, n int, by Near, scores []float64) (list []int32, open bool) {
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
	list = eval.Top(scores, n+1, but, of)
	if len(list) <= n {
		return list, false
	}
	return list[:n], by == Cosine && scores[list[n]] >= sameCosine
}

// trained counts the training ratings of every item; nil for a deployment's model.
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

// WriteSimilar writes the n nearest items of every item as a feature of it: a CSV with the columns
// item_id, category, value and weight, which the setting features reads. It leaves out items with a
// nearness of 0 or less; with binary every weight is 1. It returns the number of items with at
// least one neighbour. doubtful counts the items of which more items than n have the same direction.
func (r *Recommender) WriteSimilar(w io.Writer, n int, by Near, binary bool) (items, doubtful int, err error) {
	lines, open := make([]string, r.Data.Items), make([]bool, r.Data.Items)
	protocol.Workers(runtime.GOMAXPROCS(0)).Each(len(lines), func(j int) {
		if norm(r.saved.Items.Row(j)) == 0 {
			return
		}
		var b strings.Builder
		out := csv.NewWriter(&b)
		scores := make([]float64, r.Data.Items)
		var near []int32
		near, open[j] = r.nearest(j, n, by, scores)
		for _, k := range near {
			x := scores[k]
			if x < leastNearness { // the others are no nearer
				break
			}
			if binary {
				x = 1
			}
			_ = out.Write([]string{r.Data.ItemIDs[j], "similar", r.Data.ItemIDs[k], fmt.Sprintf("%.6g", x)}) // a Builder does not fail
		}
		out.Flush()
		lines[j] = b.String()
	})
	_, err = io.WriteString(w, "item_id,category,value,weight\n")
	for j, text := range lines {
		if text != "" {
			items++
		}
		if open[j] {
			doubtful++
		}
		if err == nil {
			_, err = io.WriteString(w, text)
		}
	}
	return items, doubtful, err
}

// leastNearness is the least weight that files of features accept.
const leastNearness = 1e-9

// Overlap is the share of nearest items that two models have in common, over items by their number
// of ratings (multi-task paper, figure 11).
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
	counts := a.trained()
	if counts == nil {
		return nil, fmt.Errorf("%w: a deployment's model comes without the data of which items are popular by", ErrNotOwn)
	}
	shared := make([]float64, len(counts)) // below 0: not known to both models
	protocol.Workers(runtime.GOMAXPROCS(0)).Each(len(shared), func(j int) {
		if shared[j] = -1; norm(a.saved.Items.Row(j)) == 0 || norm(b.saved.Items.Row(j)) == 0 {
			return
		}
		one, chance := a.nearest(j, top, by, make([]float64, len(shared)))
		other, chance2 := b.nearest(j, top, by, make([]float64, len(shared)))
		if chance || chance2 {
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

// PrintRecommendations writes the result of Recommend as a table.
func (r *Recommender) PrintRecommendations(w io.Writer, list []Recommendation) error {
	unit := "SCORE"
	switch {
	case r.Stars() && r.OrdersByMore():
		unit = "SCORE\tSTARS"
	case r.Stars():
		unit = "STARS"
	}
	rows := make([]string, len(list))
	for i, x := range list {
		rows[i] = fmt.Sprintf("%.2f\t%s", x.Predicted, cells(x.Item))
		if r.Stars() && r.OrdersByMore() {
			rows[i] = fmt.Sprintf("%.2f\t%s", x.Score, rows[i])
		}
	}
	return printTable(w, unit, "", rows)
}

// printTable writes rows of a number and an item.
func printTable(w io.Writer, number, last string, rows []string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(t, number+"\tID\tTITLE\tGENRES"+last+"\n"+strings.Join(append(rows, ""), "\n")); err != nil {
		return err
	}
	return t.Flush()
}

// cells returns an item's part of a table row.
func cells(i Item) string {
	return i.ID + "\t" + cmp.Or(i.Title, "-") + "\t" + cmp.Or(strings.Join(i.Genres, ", "), "-")
}

// PrintNeighbours writes the result of Similar as a table.
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

// Print writes the overlap as a table.
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
