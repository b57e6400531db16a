// Figures draws docs/results.svg from results.csv: test RMSE against ε, a line for each
// algorithm.
//
//	go run -C tools ./figures > docs/results.svg
package main

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"log"
	"math"
	"os"
	"strconv"
	"strings"
)

//go:embed results.csv
var table string

const (
	width, height         = 720, 360
	left, right, top, low = 70, 560, 30, 310 // of the plot
	step                  = 0.02             // stars between two lines of the grid
)

// best and worst are the RMSE at the bottom and the top of the plot.
var best, worst float64

// Colours that are told apart whatever one's colour vision (Okabe and Ito), and dashes.
var styles = []struct{ colour, dash string }{{"#000000", "2 4"}, {"#D55E00", "8 4"}, {"#0072B2", ""}}

func main() {
	text, err := picture(table)
	if err != nil {
		log.Fatal(err)
	}
	if _, err = os.Stdout.WriteString(text); err != nil {
		log.Fatal(err)
	}
}

// picture draws a table of algorithms by ε.
func picture(table string) (string, error) {
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		return "", err
	}
	if best, worst, err = ends(rows[1:]); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="14" role="img">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>Test RMSE against epsilon</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", width, height)
	for v := best; v < worst+step/2; v += step {
		fmt.Fprintf(&b, "<path d=\"M%d %.1fH%d\" stroke=\"#dddddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n", left, y(v), right, left-8, y(v)+5, v)
	}
	for i, name := range rows[0][1:] {
		if name == "inf" {
			name = "no noise"
		}
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x(i), low+22, name)
	}
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">epsilon, per user</text>\n", (left+right)/2, low+44)
	fmt.Fprintf(&b, "<text x=\"16\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 16 %d)\">test RMSE, in stars</text>\n", (top+low)/2, (top+low)/2)
	for i, row := range rows[1:] {
		if err = line(&b, row, i); err != nil {
			return "", err
		}
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

// ends returns the lines of the grid below and above all values.
func ends(rows [][]string) (low, high float64, err error) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, row := range rows {
		for _, cell := range row[1:] {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				return 0, 0, err
			}
			low, high = min(low, v), max(high, v)
		}
	}
	return step * math.Floor(low/step), step * math.Ceil(high/step), nil
}

// line draws an algorithm, with its name at the end. The last two lie close together.
func line(b *strings.Builder, row []string, which int) error {
	s, path, last := styles[which], "", 0.
	for i, cell := range row[1:] {
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			return err
		}
		path += fmt.Sprintf("%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[i == 0], x(i), y(v))
		fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x(i), y(v), s.colour)
		last = y(v)
	}
	fmt.Fprintf(b, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n", path, s.colour, s.dash)
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%.1f\" fill=\"%s\">%s</text>\n", right+10, last+[]float64{5, -4, 14}[which], s.colour, row[0])
	return nil
}

func x(i int) float64 { return left + 30 + float64(i)*(right-left-50)/3 }

func y(v float64) float64 { return low - (v-best)/(worst-best)*(low-top) }
