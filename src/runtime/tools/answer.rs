//! From what a host answered to what a model gets: text and value, each complete alone, both within
//! `mcp.answer_bytes`.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::describe::{lines, sentence, sentence_of_row};
use super::shorten::{Omitted, fit, middle, note_truncated};
use super::text::Text;
use crate::protocol::error::Error;
use crate::protocol::output::{Excerpt, Page};
use crate::protocol::state::{Cleanup, Reason, State};
use crate::protocol::status::Status;
use crate::protocol::verb::exec::ExecAnswer;
use crate::protocol::verb::list::ListAnswer;
use crate::protocol::verb::wait::{Outcome, WaitAnswer};

/// Least bound of an answer: enough for one status. A smaller `mcp.answer_bytes` is taken as this.
pub(super) const ANSWER_BYTES_MIN: u64 = 2048;
/// Of an answer's bound, what is kept free of output for the fields around it.
pub(super) const FIELDS_BYTES: u64 = 768;
/// Longest command or directory that a status repeats to a model.
const REPEATED_BYTES_MAX: usize = 500;

/// Fields of a status that its caller knows or that never change; `status` gives them.
const LEFT_OUT: &[&str] = &[
    "session",
    "agent",
    "request",
    "mode",
    "command",
    "cwd",
    "containment",
    "pty",
    "lifetime",
    "started_at",
    "ended_at",
    "output",
    "stdin",
    "idle_ms",
];

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The answer in words: complete alone.
    pub text: String,
    /// The answer as an object: complete alone. After a mistake `{"error": {code, message, details, retryable}}`.
    pub structured: Value,
    /// Whether something went wrong: a call that was refused, or a command that did not end as asked.
    pub is_error: bool,
}

/// An answer before it is cut to its bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Draft {
    /// What happened, in a sentence.
    pub sentence: String,
    /// Everything but the output's text.
    pub fields: Map<String, Value>,
    /// The output, and the field it belongs into; none = the top.
    pub output: Option<(Option<&'static str>, Text)>,
    /// Whose output it is, for the line that says how to read what was left out.
    pub process_id: Option<String>,
    /// As in [`ToolResult`].
    pub is_error: bool,
}

impl Draft {
    /// A draft of `answer`, told by `sentence`.
    pub fn of(sentence: String, answer: &impl Serialize) -> Self {
        Draft { sentence, fields: map_of(answer), ..Draft::default() }
    }

    /// A status in full.
    pub fn status(status: &Status) -> Self {
        let mut draft = Draft::of(sentence(status), status);
        for field in ["command", "cwd"] {
            if let Some(Value::String(text)) = draft.fields.get_mut(field) {
                *text = repeated(text);
            }
        }
        draft
    }

    /// A status without what its caller knows.
    pub fn brief(status: &Status) -> Self {
        Draft { sentence: sentence(status), fields: brief(status), ..Draft::default() }
    }

    /// A process that was just started, with its first output.
    pub fn started(status: &Status, page: Option<&Page>) -> Self {
        let mut draft = Draft::of(sentence(status), &json!({"process": brief(status)}));
        draft.process_id = Some(status.process_id.to_string());
        if let Some(page) = page {
            draft.set("output", json!({"start": page.start, "next_cursor": page.next_cursor}));
            draft.output = Some((Some("output"), Text::of_page(page, true)));
        }
        draft
    }

    /// A command that ended.
    pub fn exec(answer: &ExecAnswer) -> Self {
        let mut draft = Draft::of(sentence(&answer.process), &json!({"process": brief(&answer.process)}));
        draft.set("yielded", json!(answer.yielded));
        draft.set("duration_ms", json!(answer.duration_ms));
        if let Some(advice) = &answer.advice {
            draft.set("advice", json!(advice));
        }
        draft.excerpt("output", &answer.output);
        draft.process_id = Some(answer.process.process_id.to_string());
        draft.is_error = went_wrong(&answer.process);
        draft
    }

    /// What a wait saw.
    pub fn wait(answer: &WaitAnswer) -> Self {
        let what = match answer.outcome {
            Outcome::Satisfied => "Satisfied",
            Outcome::Timeout => "Still running when the wait ended",
            Outcome::ProcessEnded => "It ended before that became true",
            Outcome::Unavailable => "Nobody can tell",
        };
        let mut draft = Draft::of(format!("{what}: {}", sentence_of_row(&answer.process)), answer);
        draft.excerpt("new_output", &answer.new_output);
        draft.process_id = Some(answer.process.process_id.to_string());
        if answer.outcome == Outcome::Timeout {
            let next = answer.new_output.next_cursor;
            draft.set("advice", json!(format!("wait again, or read on with output and cursor {next}")));
        }
        draft
    }

    /// A page. With `whole`, of all streams.
    pub fn page(page: &Page, whole: bool) -> Self {
        let about = match (page.eof, page.end - page.next_cursor.min(page.end)) {
            (true, _) => "This is the end of the output".to_owned(),
            (false, 0) => "Nothing more so far".to_owned(),
            (false, more) => format!("{more} bytes more from cursor {}", page.next_cursor),
        };
        let mut draft = Draft::of(format!("Output of {}. {about}.", page.process_id), page);
        draft.process_id = Some(page.process_id.to_string());
        if page.chunks.iter().all(|chunk| chunk.data_base64.is_none()) {
            draft.fields.remove("chunks");
            draft.output = Some((None, Text::of_page(page, whole)));
        }
        if page.chunks.iter().any(|chunk| chunk.lossy) {
            draft.set("lossy", json!(true));
        }
        draft
    }

    /// The caller's processes.
    pub fn list(answer: &ListAnswer) -> Self {
        let counts = answer.counts;
        let mut draft = Draft::of(format!("{} live, {} finished.", counts.live, counts.finished), answer);
        if let Some(statuses) = &answer.statuses {
            let rows: Vec<Value> = statuses.iter().map(|status| Value::Object(Draft::status(status).fields)).collect();
            draft.set("statuses", Value::Array(rows));
        }
        draft
    }

    /// A refusal.
    pub fn error(error: &Error) -> Self {
        let mut draft = Draft::of(format!("Error: {}", error.message), &json!({"error": error}));
        draft.is_error = true;
        draft
    }

    /// Adds or replaces a field.
    pub fn set(&mut self, field: &str, value: Value) {
        self.fields.insert(field.to_owned(), value);
    }

    fn excerpt(&mut self, field: &'static str, excerpt: &Excerpt) {
        let mut around = map_of(excerpt);
        around.remove("text");
        self.set(field, Value::Object(around));
        self.output = Some((Some(field), Text::of_excerpt(excerpt)));
    }

    /// The answer within `bound` bytes, text and value each.
    pub fn finish(self, bound: u64) -> ToolResult {
        let bound = usize::try_from(bound.max(ANSWER_BYTES_MIN)).unwrap_or(usize::MAX);
        let mut draft = self;
        let mut fields = Value::Object(std::mem::take(&mut draft.fields));
        // The text says every field once more with its sentence; half of a bound that also holds output is enough.
        let mut fields_bound = if draft.output.is_some() { bound / 2 } else { bound };
        let mut output_bound = draft.output.as_ref().map_or(0, |(_, text)| text.text.len().min(bound));
        loop {
            if fit(&mut fields, fields_bound) && fields.get("truncated").is_some() {
                note_truncated(&mut fields);
            }
            let result = draft.render(&fields, output_bound);
            let size = result.text.len().max(result.structured.to_string().len());
            match size.checked_sub(bound) {
                None | Some(0) => return result,
                Some(excess) if output_bound > 0 => output_bound = output_bound.saturating_sub(excess),
                Some(excess) => {
                    fields_bound = match fields_bound.checked_sub(excess) {
                        Some(less) if less > 0 => less,
                        _ => return draft.too_long(bound),
                    }
                }
            }
        }
    }

    /// The answer with at most `output_bound` bytes of output.
    fn render(&self, fields: &Value, output_bound: usize) -> ToolResult {
        let mut structured = fields.clone();
        let mut text = format!("{}\n{}", self.sentence, lines(&self.told(fields)));
        if let Some((field, output)) = &self.output {
            let (cut, _) = middle(&output.text, output_bound, |omitted| self.mark(output, omitted));
            if !cut.is_empty() {
                text = format!("{text}\n{cut}");
            }
            let place = match field {
                Some(field) => structured.get_mut(*field),
                None => Some(&mut structured),
            };
            if let Some(Value::Object(place)) = place {
                place.insert("text".to_owned(), json!(cut));
            }
        }
        ToolResult { text: text.trim_end_matches('\n').to_owned(), structured, is_error: self.is_error }
    }

    /// What the lines of the text are made from: an error's message already is the sentence.
    fn told(&self, fields: &Value) -> Value {
        let mut told = fields.get("error").unwrap_or(fields).clone();
        if let Some(map) = told.as_object_mut().filter(|_| self.is_error) {
            map.remove("message");
        }
        told
    }

    fn mark(&self, output: &Text, omitted: Omitted) -> String {
        let process = self.process_id.as_deref().unwrap_or("it");
        let cursor = output.cursor_at(omitted.at);
        format!("\n[{} bytes omitted; read them: process output {process} cursor {cursor}]\n", omitted.bytes)
    }

    /// Nothing is left to cut: the sentence alone.
    fn too_long(&self, bound: usize) -> ToolResult {
        let (sentence, _) = middle(&self.sentence, bound / 8, |_| " … ".to_owned());
        let key = if self.is_error { "error" } else { "summary" };
        ToolResult { structured: json!({key: {"message": sentence}}), text: sentence, is_error: self.is_error }
    }
}

/// Whether a command ended otherwise than by itself or on request, or nobody knows what is left of it.
fn went_wrong(status: &Status) -> bool {
    status.reason == Some(Reason::Signal)
        || matches!(status.state, State::TimedOut | State::Lost)
        || status.cleanup == Some(Cleanup::Uncertain)
}

fn brief(status: &Status) -> Map<String, Value> {
    let mut fields = map_of(status);
    for field in LEFT_OUT {
        fields.remove(*field);
    }
    if status.label.is_some() {
        fields.remove("name");
    }
    fields
}

fn repeated(text: &str) -> String {
    middle(text, REPEATED_BYTES_MAX, |omitted| format!(" … {} bytes … ", omitted.bytes)).0
}

fn map_of(answer: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(answer) {
        Ok(Value::Object(map)) => map,
        // The protocol's answers are plain objects; anything else is shown as it is.
        Ok(other) => Map::from_iter([("answer".to_owned(), other)]),
        Err(error) => Map::from_iter([("answer".to_owned(), json!(error.to_string()))]),
    }
}

#[cfg(test)]
mod tests;
