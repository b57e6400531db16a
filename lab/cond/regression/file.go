package regression

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/dataset/synthetic"
)

// criteoColumns lists the columns of Criteo's Sponsored Search Conversion Log, whose file has no header.
var criteoColumns = []string{
	"Sale", "SalesAmountInEuro", "time_delay_for_conversion", "click_timestamp", "nb_clicks_1week", "product_price", "product_age_group", "device_type",
	"audience_id", "product_gender", "product_brand", "product_category_1", "product_category_2", "product_category_3", "product_category_4",
	"product_category_5", "product_category_6", "product_category_7", "product_country", "product_id", "product_title", "partner_id", "user_id",
}

// Of these the label and what is only known with it are no features, nor is the time of a click.
const (
	criteoLabel = "SalesAmountInEuro"
	criteoSale  = "Sale"
	criteoTop   = 400 // euros: larger amounts count as that much (Ghazi et al. 2023 leave them out, by the label)
)

var criteoAfter = []string{criteoSale, "time_delay_for_conversion", "click_timestamp"}

// readFile reads a table with a header, with commas, tabs or semicolons between, as a regression: the label's column, and every
// other one as features. Numbers are centred and divided by their deviation, over all rows, since features are public; a missing
// one is the mean. A column that has anything else holds words: each value is a feature of its own, and above mostValues they are
// hashed. Constant columns are left out. The columns that are said to be private are fields alone ([dataset.Profile.Private]),
// hashed to as many values each, whatever is in them. A row without a label is left out. Labels beyond the scale count as its ends,
// and the scale has to be said.
//
// Criteo's log, of 23 columns without a header and with -1 for missing values, is known by its label's name. Its examples are the
// clicks that a sale followed. Which clicks these are counts as public, as in the papers with published figures.
func readFile(ctx context.Context, f read.RegressionFile, o read.Options) (*dataset.Set, error) {
	private := strings.FieldsFunc(o.Columns.Private, func(r rune) bool { return r == '+' })
	t := &fileTable{table: table{File: f.Path}, label: o.Columns.Label, separator: o.Form.Separator, id: o.Columns.User, private: private}
	if err := t.read(ctx, f); err != nil {
		return nil, err
	}
	if t.criteo && o.Min == nil && o.Max == nil {
		o.Min, o.Max = new(0.), new(float64(criteoTop))
	}
	if o.Min == nil || o.Max == nil {
		return nil, fmt.Errorf("%s: %w: labels are private, and their range is not read off them; say --rating-min and --rating-max", t.File, dataset.ErrScale)
	}
	lo, hi, err := dataset.ScaleOr(o.Min, o.Max, *o.Min, *o.Max)
	if err != nil {
		return nil, err
	}
	set, err := t.set(f.Set, lo, hi, o.Fields)
	if err != nil {
		return nil, err
	}
	set.ItemIDs = []string{t.label}
	if t.id != "" {
		if set.UserIDs, err = t.ids, distinct(t.File, t.id, t.ids); err != nil {
			return nil, err
		}
	}
	set.Digest = set.ComputeDigest()
	return set, nil
}

// distinct refuses an id that stands twice.
func distinct(file, column string, ids []string) error {
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if id == "" || seen[id] {
			return fmt.Errorf("%s: %q stands twice in the column %s, or is empty; the ids of examples must differ", file, id, column)
		}
		seen[id] = true
	}
	return nil
}

// fileTable is a file as it is read.
type fileTable struct {
	table
	label, id     string
	separator     string   // "" for the separator of most fields of the first line
	private       []string // names of columns
	criteo        bool
	at, privateAt []int // where the columns of features, and the private ones, stand in a record
	ids           []string
}

func (t *fileTable) read(ctx context.Context, f read.RegressionFile) error {
	b := bufio.NewReaderSize(f, 1<<16)
	first, err := b.Peek(1 << 12)
	if len(first) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", t.File, err)
	}
	line, _, _ := strings.Cut(strings.TrimPrefix(string(first), "\ufeff"), "\n")
	c := csv.NewReader(b)
	c.ReuseRecord = true
	for _, comma := range []rune{'\t', ';'} { // what stands between most fields of the first line
		if strings.Count(line, string(comma)) > strings.Count(line, string(c.Comma)) {
			c.Comma, c.LazyQuotes = comma, comma == '\t'
		}
	}
	if t.separator == "::" {
		return fmt.Errorf("%s: a regression has one character between fields; :: is two", t.File)
	}
	if t.separator != "" {
		c.Comma = rune(t.separator[0])
	}
	var header []string
	if t.label == criteoLabel && c.Comma == '\t' && strings.Count(line, "\t") == len(criteoColumns)-1 && !strings.Contains(line, criteoLabel) {
		header, t.criteo = criteoColumns, true
	} else if header, err = c.Read(); err != nil {
		return t.failed(c, err)
	} else {
		header = slices.Clone(header)
		header[0] = strings.TrimPrefix(header[0], "\ufeff")
	}
	label, id, err := t.open(header)
	if err != nil {
		return err
	}
	var told int64
	for {
		record, err := c.Read()
		if n := c.InputOffset(); f.Progress != nil && (n-told > 1<<20 || err != nil) {
			told = n
			f.Progress(n)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && len(record) != len(header) {
			err = fmt.Errorf("%d fields, want %d as in the header", len(record), len(header))
		}
		if err != nil {
			return t.failed(c, err)
		}
		if err = ctx.Err(); err != nil {
			return err
		}
		if err = t.take(record, label, id); err != nil {
			return t.failed(c, err)
		}
	}
	if len(t.Labels) == 0 {
		return fmt.Errorf("%s: %w: no row has a label", t.File, dataset.ErrNoRatings)
	}
	return nil
}

// failed says where.
func (t *fileTable) failed(c *csv.Reader, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &dataset.FileError{File: t.File, Line: parse.StartLine, Err: parse.Err}
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w: the file is empty", t.File, dataset.ErrNoRatings)
	}
	line, _ := c.FieldPos(0)
	return &dataset.FileError{File: t.File, Line: line, Err: err}
}

// open finds the columns of a header.
func (t *fileTable) open(header []string) (label, id int, err error) {
	for i, name := range header {
		if slices.Contains(header[:i], name) {
			return 0, 0, fmt.Errorf("%s: two columns are called %q; names must differ", t.File, name)
		}
	}
	find := func(what, name string) (int, error) {
		at := slices.Index(header, name)
		if at < 0 {
			return 0, fmt.Errorf("%s: no column is called %q, which is said to be the %s; there are %s", t.File, name, what, strings.Join(header, ", "))
		}
		return at, nil
	}
	if label, err = find("label", t.label); err != nil {
		return 0, 0, err
	}
	id = -1
	if t.id != "" {
		if id, err = find("id of an example", t.id); err != nil {
			return 0, 0, err
		}
	}
	for i, name := range header {
		if i == label || i == id || t.criteo && slices.Contains(criteoAfter, name) {
			continue
		}
		if slices.Contains(t.private, name) {
			t.Private, t.privateAt = append(t.Private, dataset.Field{Name: name, Size: privateSize}), append(t.privateAt, i)
		} else {
			t.Columns, t.at = append(t.Columns, &column{Name: name}), append(t.at, i)
		}
	}
	for _, name := range t.private {
		if _, err = find("name of private features", name); err == nil && !slices.ContainsFunc(t.Private, func(c dataset.Field) bool { return c.Name == name }) {
			err = fmt.Errorf("%s: the column %q is the label, an id or known with the label; it is no feature", t.File, name)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return label, id, nil
}

// take adds a row.
func (t *fileTable) take(record []string, label, id int) error {
	text := strings.TrimSpace(record[label])
	if t.criteo && (record[0] != "1" || text == "-1") || text == "" {
		return nil
	}
	y, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(y) {
		return fmt.Errorf("the label, in the column %s, is no number", t.label) // and private: it is not shown
	}
	t.Labels = append(t.Labels, y)
	if id >= 0 {
		t.ids = append(t.ids, strings.Clone(record[id]))
	}
	for k, c := range t.Columns {
		v := strings.TrimSpace(record[t.at[k]])
		if t.criteo && v == "-1" {
			v = ""
		}
		c.Add(v, len(t.Labels)-1)
	}
	for k := range t.Private {
		c := &t.Private[k]
		c.Values = append(c.Values, bucket(c.Name, strings.TrimSpace(record[t.privateAt[k]]), c.Size))
	}
	return nil
}

// privateSize is the number of values of a private field: the words that occur in it are private, so all are hashed.
const privateSize = 1000

// fieldsName begins the names of synthetic regressions of categories, within synthetic:.
const fieldsName = "fields"

// Synthetic fields are as many as the fields of Criteo's Sponsored Search log. Each value has an effect in each of fieldsEffects
// directions. A label is the first effect, plus the product of the two others, which no linear model sees, plus noise.
const (
	fieldsRows, fieldsCount    = 20_000, 17
	fieldsPrivate              = 8 // the last of them, where some are private
	fieldsSmallest, fieldsMost = 4, 2000
	fieldsEffects              = 3
	fieldsMostRows             = 10_000_000
)

// openFields generates fields[-ROWS][-private].
func openFields(ctx context.Context, name string, o synthetic.Options) (*dataset.Set, error) {
	rest, private := strings.CutSuffix(strings.TrimPrefix(name, fieldsName), "-private")
	rows := fieldsRows
	if text, given := strings.CutPrefix(rest, "-"); given {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > fieldsMostRows {
			return nil, fmt.Errorf("%q names no number of examples; want %s, %s-ROWS with up to %d of them, or one of both with -private behind it", text, fieldsName, fieldsName, fieldsMostRows)
		}
		rows = n
	}
	lo, hi, err := dataset.ScaleOr(o.Min, o.Max, -regressionRange, regressionRange)
	if err != nil {
		return nil, err
	}
	t := &table{File: name}
	rng := rand.New(rand.NewPCG(regressionSeed, 0x6669656c6473)) // "fields"
	effects := make([][fieldsEffects]float64, rows)
	for k := range fieldsCount {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := drawField(rng, k, rows, effects)
		if private && k >= fieldsCount-fieldsPrivate {
			t.Private = append(t.Private, f)
			continue
		}
		c := &column{Name: f.Name, Words: f.Values}
		for v := range f.Size {
			c.Values = append(c.Values, strconv.Itoa(v))
		}
		t.Columns = append(t.Columns, c)
	}
	t.Labels = make([]float64, rows)
	for i, e := range effects {
		t.Labels[i] = 0.8*e[0] + 0.6*e[1]*e[2] + regressionNoise*rng.NormFloat64()
	}
	return t.set(prefix+name, lo, hi, o.Fields)
}

// drawField makes a field whose values are the rarer the higher they are, like 1/v. It adds the
// effects of the values, of variance 1 over all fields, to the effects of each example.
func drawField(rng *rand.Rand, k, rows int, effects [][fieldsEffects]float64) dataset.Field {
	size := int(fieldsSmallest * math.Pow(fieldsMost/fieldsSmallest, float64(k%(fieldsPrivate+1))/fieldsPrivate))
	f := dataset.Field{Name: fmt.Sprintf("f%d", k+1), Size: size, Values: make([]int32, rows)}
	of := make([][fieldsEffects]float64, size)
	for v := range of {
		for d := range of[v] {
			of[v][d] = rng.NormFloat64() / math.Sqrt(fieldsCount)
		}
	}
	for i := range f.Values {
		v := min(int32(math.Exp(rng.Float64()*math.Log(float64(size)+1)))-1, int32(size)-1)
		f.Values[i] = v
		for d, e := range of[v] {
			effects[i][d] += e
		}
	}
	return f
}

// prefix begins the specs of generated sets.
const prefix = "synthetic:"

// regressionName begins the names of synthetic regressions, within synthetic:.
const regressionName = "regression"

// The size of synthetic regressions, their noise, and the public range of labels, whose mean square is 1: six deviations
// leave out one in 10⁹ where they are normal.
const (
	regressionRows, regressionCols = 20_000, 100
	regressionNoise                = 0.1
	regressionRange                = 6
	regressionSeed                 = 1 // of the population, not of a run
)

// ParseShape reads regression[-DECAY[-LABELS]]: σ_i = i^-DECAY, by default 1, and labels in the bottom direction.
func ParseShape(name string) (Shape, error) {
	s := Shape{Rows: regressionRows, Cols: regressionCols, Decay: 1, Labels: BottomLabels, Noise: regressionNoise}
	parts := strings.Split(name, "-")
	var err error
	if len(parts) > 1 {
		s.Decay, err = strconv.ParseFloat(parts[1], 64)
	}
	if len(parts) > 2 {
		s.Labels = Alignment(parts[2])
	}
	known := []Alignment{TopLabels, UniformLabels, BottomLabels}
	if err != nil || !(s.Decay >= 0) || math.IsInf(s.Decay, 1) || !slices.Contains(known, s.Labels) || len(parts) > 3 {
		return s, fmt.Errorf("%q is no regression; want %s, or %s-DECAY-LABELS such as %s-0.5-uniform: singular values i^-DECAY, and labels in the directions %s, %s or %s",
			name, regressionName, regressionName, regressionName, TopLabels, UniformLabels, BottomLabels)
	}
	return s, nil
}

// openRegression generates the regression of a name.
func openRegression(ctx context.Context, name string, o synthetic.Options) (*dataset.Set, error) {
	s, err := ParseShape(name)
	if err != nil {
		return nil, err
	}
	lo, hi, err := dataset.ScaleOr(o.Min, o.Max, -regressionRange, regressionRange)
	if err != nil {
		return nil, err
	}
	return NewSet(prefix+name, New(s, regressionSeed), lo, hi), ctx.Err()
}
