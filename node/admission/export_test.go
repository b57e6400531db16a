package admission

// Add takes an enrolment as verified, whatever it is.
func (v *Verified) Add(e *Enrolment) { v.add(e) }

// Waiting are the enrolments that wait for others to be written.
func (r *Registry) Waiting() int {
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	return len(r.line.waiting)
}
