package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// features are the public features of the items of a set, one entry for each item.
type features struct {
	titles []string
	genres [][]string
	years  []int
}

var titleYear = regexp.MustCompile(`\((\d{4})\)\s*$`)

// readMovies reads a movies.csv. It adds the movies that have no rating to the
// items, and returns the features of all by their number: items that are no
// movie of the file keep an empty title, no genre and year 0.
func readMovies(ctx context.Context, file string, r io.Reader, items *idTable) (features, error) {
	s := newScanner(ctx, r, nil)
	header, err := s.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return features{}, s.locate(file, err)
	}
	if err != nil || !isMoviesHeader(header) {
		return features{}, s.locate(file, errors.New("no header; want the first line to be movieId,title,genres"))
	}
	n := len(items.names)
	out := features{titles: make([]string, n), genres: make([][]string, n), years: make([]int, n)}
	lines := make([]int, n) // line of each movie, 0 for an item that has none so far
	for {
		var record [][]byte
		record, err = s.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err == nil {
			lines, err = out.add(record, items, lines, s.line)
		}
		if err != nil {
			return features{}, s.locate(file, err)
		}
	}
}

func isMoviesHeader(header [][]byte) bool {
	names := make([]string, len(header))
	for i, field := range header {
		names[i] = string(field)
	}
	return strings.EqualFold(strings.Join(names, ","), "movieId,title,genres")
}

// add stores one movie, under the number of its item or under a new one, and
// returns the lines with its own.
func (f *features) add(record [][]byte, items *idTable, lines []int, line int) ([]int, error) {
	if len(record) != 3 {
		return nil, fmt.Errorf("%d fields, want 3: movieId,title,genres; a title with a comma must be quoted", len(record))
	}
	i, err := items.index(record[0])
	if err != nil {
		return nil, fmt.Errorf("movieId %w", err)
	}
	if int(i) == len(lines) {
		f.titles, f.genres, f.years = append(f.titles, ""), append(f.genres, nil), append(f.years, 0)
		lines = append(lines, 0)
	}
	if lines[i] != 0 {
		return nil, fmt.Errorf("movieId %q was described on line %d already; keep one of the two", record[0], lines[i])
	}
	lines[i] = line
	for k, name := range []string{"title", "genres"} {
		if !utf8.Valid(record[k+1]) {
			return nil, fmt.Errorf("%s %s %w", name, quoteShort(record[k+1]), errNotUTF8)
		}
	}
	f.titles[i] = string(record[1])
	f.years[i] = yearOf(f.titles[i])
	f.genres[i] = genresOf(string(record[2]))
	return lines, nil
}

// reorder returns the features with those of item i at rank[i]. Without
// features there are none after it either.
func (f features) reorder(rank []int32) features {
	if f.titles == nil {
		return features{}
	}
	out := features{titles: make([]string, len(rank)), genres: make([][]string, len(rank)), years: make([]int, len(rank))}
	for i, to := range rank {
		out.titles[to], out.genres[to], out.years[to] = f.titles[i], f.genres[i], f.years[i]
	}
	return out
}

// yearOf returns the year at the end of a title such as "Heat (1995)", 0 when there is none.
func yearOf(title string) int {
	match := titleYear.FindStringSubmatch(title)
	if match == nil {
		return 0
	}
	year, _ := strconv.Atoi(match[1]) // four digits: cannot fail
	return year
}

// genresOf splits "Comedy|Drama"; "(no genres listed)" and the empty text mean none.
func genresOf(text string) []string {
	if text == "" || text == "(no genres listed)" {
		return nil
	}
	return strings.Split(text, "|")
}
