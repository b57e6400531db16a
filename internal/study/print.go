package study

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/fedsim/fedsim/internal/cli/screen"
)

// Print writes the table for people, in the width of w: columns that are equal in all rows stand above it.
func (t *Table) Print(w io.Writer) error {
	same, columns := t.settings()
	rows := [][]string{slices.Concat(columns, t.Metrics)}
	for _, r := range t.Rows {
		var cells []string
		for _, c := range columns {
			cells = append(cells, r.Settings[c])
		}
		for _, m := range t.Metrics {
			cells = append(cells, shown(m, r.value(m)))
		}
		rows = append(rows, cells)
	}
	width := screen.Width(w)
	text := ""
	if len(same) > 0 {
		text = screen.Fit(strings.Join(same, "  ")+"\n\n", width)
	}
	text += screen.Table(rows, len(columns), width)
	for i, note := range t.Notes {
		if i == 0 {
			text += "\n"
		}
		text += screen.Fit(note+"\n", width)
	}
	_, err := io.WriteString(w, text)
	return err
}

// shown formats a number for people.
func shown(name string, v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case name == "runs" || name == "pairs":
		return strconv.Itoa(int(v))
	case strings.HasSuffix(name, " sd") && math.Abs(v) < 1e6: // as many digits as its mean
		return strconv.FormatFloat(v, 'f', 4, 64)
	case v == math.Trunc(v) && math.Abs(v) < 1e12:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case math.Abs(v) < 1e-3 || math.Abs(v) >= 1e6:
		return strconv.FormatFloat(v, 'g', 3, 64)
	default:
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
}

// CSV writes all columns; a number that a row lacks is an empty field.
func (t *Table) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := append([]string{"run"}, names(t.columns())...)
	if err := out.Write(append(head, t.Metrics...)); err != nil {
		return err
	}
	for _, r := range t.Rows {
		cells := []string{r.Name}
		for _, k := range t.columns() {
			cells = append(cells, r.Settings[k.Name])
		}
		for _, m := range t.Metrics {
			cell := ""
			if v := r.value(m); !math.IsNaN(v) {
				cell = strconv.FormatFloat(v, 'g', -1, 64)
			}
			cells = append(cells, cell)
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// JSON writes a list of objects with the columns of CSV; a number that a row lacks, or that
// is infinite, is null.
func (t *Table) JSON(w io.Writer) error {
	rows := make([]map[string]any, 0, len(t.Rows))
	for _, r := range t.Rows {
		row := map[string]any{"run": r.Name}
		for _, k := range t.columns() {
			row[k.Name] = r.Settings[k.Name]
		}
		for _, m := range t.Metrics {
			if v := r.value(m); !math.IsNaN(v) && !math.IsInf(v, 0) {
				row[m] = v
			} else {
				row[m] = nil
			}
		}
		rows = append(rows, row)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(rows)
}

// Parquet writes the columns of CSV: texts, and numbers that may be null.
func (t *Table) Parquet(w io.Writer) error {
	group := parquet.Group{"run": parquet.String()}
	for _, k := range t.columns() {
		group[k.Name] = parquet.String()
	}
	for _, m := range t.Metrics {
		group[m] = parquet.Optional(parquet.Leaf(parquet.DoubleType))
	}
	schema := parquet.NewSchema("runs", group)
	out := parquet.NewGenericWriter[map[string]any](w, schema)
	for _, r := range t.Rows {
		row := map[string]any{"run": r.Name}
		for _, k := range t.columns() {
			row[k.Name] = r.Settings[k.Name]
		}
		for _, m := range t.Metrics {
			if v := r.value(m); !math.IsNaN(v) {
				row[m] = v
			}
		}
		if _, err := out.Write([]map[string]any{row}); err != nil {
			return err
		}
	}
	return out.Close()
}
