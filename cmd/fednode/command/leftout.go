package command

import (
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/dataset"
)

// mostLeftOut is how many records an owner is told of one by one.
const mostLeftOut = 20

// leftOut tells an owner which records of a file are not used. It is for whoever started the
// client: nobody else may learn what the file holds, so the client takes part all the same.
type leftOut struct {
	log   *zerolog.Logger
	count int
}

func (l *leftOut) record(err *dataset.FileError) {
	if l.count++; l.count <= mostLeftOut {
		l.log.Warn().Str("file", err.File).Int("line", err.Line).AnErr("reason", err.Err).Msg("a record is left out")
	}
}

func (l *leftOut) end() {
	if more := l.count - mostLeftOut; more > 0 {
		l.log.Warn().Int("more", more).Msg("more records are left out, which are not listed")
	}
}
