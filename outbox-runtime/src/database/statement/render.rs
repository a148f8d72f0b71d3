//! From the text of a statement to what an engine is given.

use crate::database::Engine;
use crate::database::words::{Words, words};
use sea_orm::{DbErr, Value};
use std::ops::Range;

/// A statement as an engine is given it.
pub(in crate::database) struct Rendered {
    pub(in crate::database) text: String,
    /// The parameters, in the order in which they are bound.
    parameters: Vec<Parameter>,
    /// The part that is repeated for each row, if there is one.
    each: Option<Range<usize>>,
}

struct Parameter {
    name: String,
    /// Whether its value is not bound again after this.
    last: bool,
}

impl Rendered {
    pub(super) fn of(text: &str, fills: &[(&str, &str)], engine: Engine) -> Self {
        let mut text = without_comments(text);
        for (hole, with) in fills {
            text = text.replace(hole, &without_comments(with));
        }
        let text = without_comments(&text);
        let mut renderer = Renderer {
            words: words(engine),
            engine,
            text: String::with_capacity(text.len() + 128),
            names: Vec::new(),
            each: None,
        };
        renderer.push(&text);
        let Renderer {
            mut text,
            names,
            each,
            ..
        } = renderer;
        // A word at the end may mean nothing here.
        text.truncate(text.trim_end().len());
        let last = |at: usize| !names[at + 1..].contains(&names[at]);
        let last: Vec<bool> = (0..names.len()).map(last).collect();
        let parameters = names.into_iter().zip(last);
        Self {
            text,
            parameters: parameters
                .map(|(name, last)| Parameter { name, last })
                .collect(),
            each,
        }
    }

    /// The values in the order in which they are bound.
    pub(super) fn in_order(
        &self,
        name: &str,
        values: impl IntoIterator<Item = (impl AsRef<str>, Value)>,
    ) -> Result<Vec<Value>, DbErr> {
        let mut values: Vec<_> = values
            .into_iter()
            .map(|(name, value)| (name, Some(value)))
            .collect();
        let mut bound = Vec::with_capacity(self.parameters.len());
        for parameter in &self.parameters {
            let value = values
                .iter_mut()
                .find(|(name, _)| name.as_ref() == parameter.name);
            let value = value.and_then(|(_, value)| match parameter.last {
                true => value.take(),
                false => value.clone(),
            });
            bound.push(value.ok_or_else(|| {
                DbErr::Custom(format!("{name} was given no value for ${}", parameter.name))
            })?);
        }
        // Of what is bound nothing is left.
        debug_assert!(
            values.iter().all(|(_, value)| value.is_none()),
            "{name} was given a value that it has no parameter for"
        );
        Ok(bound)
    }

    /// The text with its repeated part so many times, with commas between.
    pub(in crate::database) fn repeated(&self, times: usize) -> String {
        let Some(Range { start, end }) = self.each.clone() else {
            return self.text.clone();
        };
        let each = &self.text[start..end];
        let mut text = String::with_capacity(self.text.len() + times * (each.len() + 1));
        text.push_str(&self.text[..start]);
        for time in 0..times {
            if time > 0 {
                text.push(',');
            }
            text.push_str(each);
        }
        text.push_str(&self.text[end..]);
        text
    }
}

/// Without comments, and with one space where there were many or a line's end.
fn without_comments(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("--").next().unwrap_or_default());
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

struct Renderer {
    words: &'static Words,
    engine: Engine,
    text: String,
    /// Of the parameters, in the order of their places.
    names: Vec<String>,
    each: Option<Range<usize>>,
}

impl Renderer {
    fn push(&mut self, mut rest: &str) {
        while let Some(at) = rest.find(['$', '{']) {
            self.text.push_str(&rest[..at]);
            rest = &rest[at..];
            let end = match rest.strip_prefix('$') {
                Some(after) => {
                    let end = after.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                    let end = end.unwrap_or(after.len());
                    match &after[..end] {
                        // A path into JSON.
                        "" => self.text.push('$'),
                        name => self.push_parameter(name),
                    }
                    end + 1
                }
                None => {
                    let end = end_of_braces(rest);
                    self.push_word(&rest[1..end - 1]);
                    end
                }
            };
            rest = &rest[end..];
        }
        self.text.push_str(rest);
    }

    /// PostgreSQL numbers parameters, so one that stands twice is bound once.
    fn push_parameter(&mut self, name: &str) {
        let known = self.names.iter().position(|known| known == name);
        match (self.engine, known) {
            (Engine::Postgres, Some(at)) => self.text.push_str(&format!("${}", at + 1)),
            (Engine::Postgres, None) => {
                self.names.push(name.to_owned());
                self.text.push_str(&format!("${}", self.names.len()));
            }
            (Engine::MySql | Engine::Sqlite, _) => {
                self.names.push(name.to_owned());
                self.text.push('?');
            }
        }
    }

    /// A word, or a hole that is filled when the statement is run.
    fn push_word(&mut self, word: &str) {
        let (name, arguments) = word.split_once(' ').unwrap_or((word, ""));
        if name == "each" {
            let start = self.text.len();
            self.push(arguments);
            self.each = Some(start..self.text.len());
            return;
        }
        match self.words.find(name) {
            Some(means) => {
                let mut means = means.to_owned();
                for (number, argument) in arguments.split(" | ").enumerate() {
                    means = means.replace(&format!("@{}", number + 1), argument);
                }
                self.push(&without_comments(&means));
            }
            None => {
                self.text.push('{');
                self.text.push_str(word);
                self.text.push('}');
            }
        }
    }
}

/// Where the braces that a text begins with end: behind the closing one.
fn end_of_braces(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, engine: Engine) -> (String, Vec<String>) {
        let rendered = Rendered::of(text, &[("{more}", "a = $a -- why\n")], engine);
        let names = rendered.parameters.into_iter().map(|p| p.name).collect();
        (rendered.text, names)
    }

    #[test]
    fn parameters_have_names_and_each_engine_its_own_words() {
        let text = "-- what it is for\nUPDATE t SET {key} = $a,  -- and why\n    \
            u = {after $delay_us} WHERE {us d} > $b AND {more} {ids} {skip_locked}";
        let (postgres, names) = rendered(text, Engine::Postgres);
        assert_eq!(
            postgres,
            "UPDATE t SET key = $1, u = (clock_timestamp() + $2 * interval '1 microsecond') \
             WHERE (extract(epoch FROM d) * 1000000)::bigint > $3 AND a = $1 {ids} \
             FOR NO KEY UPDATE SKIP LOCKED"
        );
        assert_eq!(names, ["a", "delay_us", "b"]);
        let (mysql, names) = rendered(text, Engine::MySql);
        assert_eq!(
            mysql,
            "UPDATE t SET `key` = ?, u = (UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
             WHERE TIMESTAMPDIFF(MICROSECOND, '1970-01-01', d) > ? AND a = ? {ids} \
             FOR UPDATE SKIP LOCKED"
        );
        assert_eq!(names, ["a", "delay_us", "b", "a"]);
    }

    #[test]
    fn values_are_bound_by_name_and_a_missing_one_is_an_error() {
        let rendered = Rendered::of("$a $b $a", &[], Engine::Sqlite);
        let (a, b) = (Value::from(1), Value::from(2));
        let bound = rendered.in_order("it", [("b", b.clone()), ("a", a.clone())]);
        assert_eq!(bound.expect("all"), [a.clone(), b, a.clone()]);
        let missing = rendered.in_order("it", [("a", a)]).expect_err("no b");
        assert!(missing.to_string().contains("it was given no value for $b"));
    }

    #[test]
    fn a_part_is_repeated_for_each_row() {
        let rendered = Rendered::of("VALUES {each ($a, {now})} END", &[], Engine::MySql);
        assert_eq!(
            rendered.repeated(2),
            "VALUES (?, UTC_TIMESTAMP(6)),(?, UTC_TIMESTAMP(6)) END"
        );
    }
}
