package recommend

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

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
	title, genres := i.Title, strings.Join(i.Genres, ", ")
	if title == "" {
		title = "-"
	}
	if genres == "" {
		genres = "-"
	}
	return i.ID + "\t" + title + "\t" + genres
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
