package party

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// A server's state holds its last session, and a folder for each session with its model.
const (
	EndedFile   = "ended.json"   // the mark of a session whose end is with the aggregator, and whose model is on disk
	CurrentLink = "current"      // a symbolic link to the model of the last session that has one
	ModelFolder = "model"        // in a session's folder
	SummaryFile = "summary.json" // in that folder, or in --out
	PastFolder  = "sessions"     // with a folder for each session, by its ID in hex; of a client too, for earlier sessions
)

// CheckpointFiles are the files of package store.
var CheckpointFiles = []string{"checkpoint", "checkpoint.previous"}

// OfSession is the common part of all files that name a session.
type OfSession struct {
	Session string `json:"session"` // in hex
}

// SessionIn reads the session that a file names; "" where there is no such file.
func SessionIn(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var of OfSession
	if err = json.Unmarshal(text, &of); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if b, bad := hex.DecodeString(of.Session); bad != nil || len(b) != len(protocol.SessionID{}) { // it becomes a folder's name
		return "", fmt.Errorf("%s: its session is %.40q; %d bytes in hex are needed", path, of.Session, len(protocol.SessionID{}))
	}
	return of.Session, nil
}

// EndedIn is the session of a server's state, if that has ended; else "".
func EndedIn(dir string) (string, error) {
	session, err := SessionIn(filepath.Join(dir, PublicFile))
	if err != nil || session == "" {
		return "", err
	}
	of, err := SessionIn(filepath.Join(dir, EndedFile))
	if err != nil || of != session {
		return "", err
	}
	return session, nil
}

// Knows reports whether a server's state has the folder of an earlier session.
func Knows(dir, session string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, PastFolder, session))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// End marks the session of a state as ended.
func End(dir, session string) error {
	return store.WriteFile(filepath.Join(dir, EndedFile), Mark(session))
}

// Abandon marks the session of a state as ended without a model before its last round.
func Abandon(dir, session string) error {
	return store.WriteFile(filepath.Join(dir, EndedFile), []byte(`{"session":"`+session+`","abandoned":true}`+"\n"))
}

// WasAbandoned reports whether the session of a state ended before its last round.
func WasAbandoned(dir string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(dir, EndedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var of struct {
		Abandoned bool `json:"abandoned"`
	}
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	return of.Abandoned, err
}

// Mark returns the content of a file that names a session.
func Mark(session string) []byte { return []byte(`{"session":"` + session + `"}` + "\n") }

// ModelFolderOf returns the folder of a session's model in a server's state.
func ModelFolderOf(dir, session string) string {
	return filepath.Join(dir, PastFolder, session, ModelFolder)
}
