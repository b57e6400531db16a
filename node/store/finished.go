package store

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/protocol"
)

// FinishedSessions records the sessions that a client has finished: it has taken the final model, and the
// result is on disk. No ledger depends on it. Without it nothing is spent anew, but the client
// would fetch the result of the last session once more, in place of taking part in the next
// session. It may be used by several goroutines.
type FinishedSessions struct {
	path     string
	mu       sync.Mutex
	sessions []protocol.SessionID // in the order in which they were finished
	end      *protocol.End        // of the last session; nil: none is known
}

// finishedFormat names the form of the file, and its version.
const finishedFormat = "fedsim-finished-v1"

type finishedFile struct {
	Format   string   `json:"format"`
	Sessions []string `json:"sessions"` // in hex
	// End is the server's signature of the end of the last session.
	End *protocol.End `json:"end,omitempty"`
}

// OpenFinished reads the file at the path, which is made with the first session. It refuses a file
// that was changed since it was written (ErrCorrupt, ErrFormat).
func OpenFinished(path string) (*FinishedSessions, error) {
	f := &FinishedSessions{path: path}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		f.sessions, f.end, err = parseFinished(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, the sessions that this client has finished: %w; delete it, and at worst the result of the last one is fetched once more", path, err)
	}
	return f, nil
}

func parseFinished(text []byte) ([]protocol.SessionID, *protocol.End, error) {
	var file finishedFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if file.Format != finishedFormat {
		return nil, nil, fmt.Errorf("%w: %.40q, and %q is needed", ErrFormat, file.Format, finishedFormat)
	}
	list := make([]protocol.SessionID, len(file.Sessions))
	for i, s := range file.Sessions {
		b, err := hex.DecodeString(s)
		if err != nil || len(b) != len(list[i]) {
			return nil, nil, fmt.Errorf("%w: session %d is %.40q; %d bytes in hex are needed", ErrCorrupt, i+1, s, len(list[i]))
		}
		copy(list[i][:], b)
	}
	return list, file.End, nil
}

// Has says whether a session was finished.
func (f *FinishedSessions) Has(s protocol.SessionID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.sessions, s)
}

// HasNamed is Has for a session in hex.
func (f *FinishedSessions) HasNamed(session string) bool {
	var id protocol.SessionID
	b, err := hex.DecodeString(session)
	return err == nil && copy(id[:], b) == len(id) && len(b) == len(id) && f.Has(id)
}

// End returns the signed end of the last session that was finished; nil: none is known.
func (f *FinishedSessions) End() *protocol.End {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end
}

// Add marks a session as finished, durably when it returns, and keeps its signed end. After an error it is not.
func (f *FinishedSessions) Add(s protocol.SessionID, end *protocol.End) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.sessions, s) {
		return nil
	}
	next := append(slices.Clone(f.sessions), s)
	file := finishedFile{Format: finishedFormat, End: end}
	for _, id := range next {
		file.Sessions = append(file.Sessions, hex.EncodeToString(id[:]))
	}
	text, err := json.Marshal(&file)
	if err != nil {
		return err
	}
	if err = atomicfile.Write(f.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("store: marking the session %x as finished: %w", s, err)
	}
	f.sessions, f.end = next, end
	return nil
}
