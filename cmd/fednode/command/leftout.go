package command

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/dataset"
)

// mostLeftOut limits the records that an owner is told of one by one.
const mostLeftOut = 20

// leftOut tells an owner which records of a file are not used. Only the person who started the
// client may learn what the file holds, so the client takes part all the same.
type leftOut struct {
	log   *zerolog.Logger
	count int
	off   int // of them, ratings that are off the scale
}

func (l *leftOut) record(err *dataset.FileError) {
	if errors.Is(err.Err, dataset.ErrOffScale) {
		l.off++
	}
	if l.count++; l.count <= mostLeftOut {
		l.log.Warn().Str("file", err.File).Int("line", err.Line).AnErr("reason", contentless{err.Err}).Msg("a record is left out")
	}
}

// content matches what an error about a record may quote of it: texts in quotation marks, and numbers. It also matches the
// number of another line, which is no content.
var content = regexp.MustCompile(`\bline \d+|"(?:[^"\\]|\\.)*"|[-+]?\d[\w.+-]*`)

// contentless is an error about a record without the record's content. A log holds no rating, and its reader has the line.
type contentless struct{ error }

func (e contentless) Error() string {
	return content.ReplaceAllStringFunc(e.error.Error(), func(text string) string {
		if strings.HasPrefix(text, "line ") {
			return text
		}
		return "…"
	})
}

func (e contentless) Unwrap() error { return e.error }

// withoutContent returns the error of a data file without what the file says there.
func withoutContent(err error) error {
	if f, ok := errors.AsType[*dataset.FileError](err); ok {
		return &dataset.FileError{File: f.File, Line: f.Line, Err: contentless{f.Err}}
	}
	return err
}

func (l *leftOut) end() {
	if more := l.count - mostLeftOut; more > 0 {
		l.log.Warn().Int("more", more).Msg("more records are left out, which are not listed")
	}
}

// A file is of another scale if more than a tenth of its ratings, and at least fewOff, are off the
// session's. Fewer are slips, which are left out: one rating does not decide whether a client takes part.
const fewOff = 3

var errScale = errors.New("the ratings are on another scale than the session's")

// scale refuses data on another scale as a whole. used counts the ratings that are left.
func (l *leftOut) scale(data string, used int, low, high float64) error {
	if l.off < fewOff || 10*l.off <= l.off+used {
		return nil
	}
	return fmt.Errorf("%w: of %d ratings in %s %d are outside of %v to %v; nothing is trained on. Convert the ratings to that scale and start again",
		errScale, l.off+used, data, l.off, low, high)
}
