// Package session holds code that both ends of a stream share, whichever role each has. Parties register with its messages and hear
// the description of a session. Its driver runs a role and reports the role's events. Package node gives the order of messages.
package session
