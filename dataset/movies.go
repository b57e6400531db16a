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

// readMovies reads a movies.csv and returns the features of the items named by
// itemIDs. Movies that are not among them are checked and dropped; items
// without a movie keep an empty title, no genre and year 0.
func readMovies(ctx context.Context, file string, r io.Reader, itemIDs []string) (features, error) {
	s := newScanner(ctx, r, nil)
	item := make(map[string]int, len(itemIDs))
	for i, id := range itemIDs {
		item[id] = i
	}
	out := features{titles: make([]string, len(itemIDs)), genres: make([][]string, len(itemIDs)), years: make([]int, len(itemIDs))}
	header, err := s.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return features{}, s.locate(file, err)
	}
	if err != nil || !isMoviesHeader(header) {
		return features{}, s.locate(file, errors.New("no header; want the first line to be movieId,title,genres"))
	}
	seen := make(map[string]int, len(itemIDs)) // line of each movie
	for {
		var record [][]byte
		record, err = s.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err == nil {
			err = out.add(record, item, seen, s.line)
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

// add stores one movie.
func (f *features) add(record [][]byte, item, seen map[string]int, line int) error {
	if len(record) != 3 {
		return fmt.Errorf("%d fields, want 3: movieId,title,genres; a title with a comma must be quoted", len(record))
	}
	if err := checkID(record[0]); err != nil {
		return fmt.Errorf("movieId %w", err)
	}
	id := string(record[0])
	if first, ok := seen[id]; ok {
		return fmt.Errorf("movieId %q was described on line %d already; keep one of the two", id, first)
	}
	seen[id] = line
	for i, name := range []string{"title", "genres"} {
		if !utf8.Valid(record[i+1]) {
			return fmt.Errorf("%s %s %w", name, quoteShort(record[i+1]), errNotUTF8)
		}
	}
	i, ok := item[id]
	if !ok {
		return nil
	}
	f.titles[i] = string(record[1])
	f.years[i] = yearOf(f.titles[i])
	f.genres[i] = genresOf(string(record[2]))
	return nil
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
