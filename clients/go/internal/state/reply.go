package state

import "time"

// Time is a moment, as the time since a fixed moment on a monotonic clock.
type Time = time.Duration

const (
	far      Time = 1 << 61                   // the end of a wait without a limit
	tenYears      = 10 * 365 * 24 * time.Hour // the longest wait that the server takes; a longer one has no limit
)

// Milliseconds rounds up.
func Milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Fields returns a map, which RESP2 sends as a flat array.
func Fields(value any) map[string]any {
	named, parts := map[string]any{}, list(value)
	for i := 0; i+1 < len(parts); i += 2 {
		named[text(parts[i])] = parts[i+1]
	}
	return named
}

func text(value any) string {
	text, _ := value.(string)
	return text
}

func number(value any) int64 {
	number, _ := value.(int64)
	return number
}

func list(value any) []any {
	list, _ := value.([]any)
	return list
}

// grant reads the reply of ACQUIRE and RENEW.
func (r Reply) grant() (token int64, lease time.Duration, ok bool) {
	if parts := list(r.Value); len(parts) > 3 {
		return number(parts[0]), milliseconds(number(parts[3])), true
	}
	return 0, 0, false
}
