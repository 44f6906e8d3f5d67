//! From tokens to a tree, one function per line of the grammar.

use super::token::{Token, Tokens, Word};
use super::{BYTES_MAX, DEPTH_MAX, Expression, Operator, PARTS_MAX, SelectorError};

/// Reads all of `text` as a condition.
pub(super) fn condition(text: &str) -> Result<Expression, SelectorError> {
    if text.len() > BYTES_MAX {
        return Err(SelectorError {
            at: BYTES_MAX,
            what: "it is too long",
        });
    }
    let mut tokens = Tokens::new(text);
    let (at, token) = tokens.next()?;
    let mut parser = Parser {
        tokens,
        token,
        at,
        depth: 0,
        parts: 0,
    };
    let condition = parser.or()?;
    match parser.token {
        Token::End if can_be_true(&condition) => Ok(condition),
        Token::End => Err(SelectorError {
            at: 0,
            what: "it is a value, not a condition",
        }),
        _ => parser.fail("something follows the condition"),
    }
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    /// The next token, not used yet.
    token: Token<'a>,
    at: usize,
    depth: usize,
    parts: usize,
}

type Parsed = Result<Expression, SelectorError>;

impl<'a> Parser<'a> {
    fn or(&mut self) -> Parsed {
        self.chain(Word::Or, Parser::and, Expression::Or)
    }

    fn and(&mut self) -> Parsed {
        self.chain(Word::And, Parser::not, Expression::And)
    }

    /// One condition, or several with `word` between them.
    fn chain(
        &mut self,
        word: Word,
        mut part: impl FnMut(&mut Self) -> Parsed,
        join: impl FnOnce(Vec<Expression>) -> Expression,
    ) -> Parsed {
        let first = part(self)?;
        if self.token != Token::Word(word) {
            return Ok(first);
        }
        let mut all = vec![self.condition(first)?];
        while self.take(&Token::Word(word))? {
            let next = part(self)?;
            all.push(self.condition(next)?);
        }
        Ok(join(all))
    }

    fn not(&mut self) -> Parsed {
        if !self.take(&Token::Word(Word::Not))? {
            return self.test();
        }
        let inner = self.deeper(Parser::not)?;
        Ok(Expression::Not(Box::new(self.condition(inner)?)))
    }

    fn test(&mut self) -> Parsed {
        let left = self.sum()?;
        if let Token::Compare(how) = self.token {
            self.advance()?;
            let right = self.sum()?;
            return Ok(Expression::Compare(how, Box::new(left), Box::new(right)));
        }
        if self.take(&Token::Word(Word::Is))? {
            let negated = self.take(&Token::Word(Word::Not))?;
            self.expect(&Token::Word(Word::Null), "NULL must follow IS")?;
            let name = self.name(left)?;
            return Ok(negate(negated, Expression::IsNull(name)));
        }
        let negated = self.take(&Token::Word(Word::Not))?;
        let tested = match self.token {
            Token::Word(Word::Between) => self.between(left)?,
            Token::Word(Word::In) => self.one_of(left)?,
            Token::Word(Word::Like) => self.like(left)?,
            _ if negated => return self.fail("BETWEEN, IN or LIKE must follow NOT"),
            _ => return Ok(left),
        };
        Ok(negate(negated, tested))
    }

    fn between(&mut self, value: Expression) -> Parsed {
        self.advance()?;
        let low = self.sum()?;
        self.expect(
            &Token::Word(Word::And),
            "AND must stand between the bounds of BETWEEN",
        )?;
        let high = self.sum()?;
        Ok(Expression::Between(Box::new([
            self.number(value)?,
            self.number(low)?,
            self.number(high)?,
        ])))
    }

    fn one_of(&mut self, value: Expression) -> Parsed {
        self.advance()?;
        let name = self.name(value)?;
        self.expect(&Token::Open, "( must follow IN")?;
        let mut texts = vec![self.text()?];
        while self.take(&Token::Comma)? {
            texts.push(self.text()?);
        }
        self.expect(&Token::Close, "the list of IN does not end")?;
        Ok(Expression::In(name, texts))
    }

    fn like(&mut self, value: Expression) -> Parsed {
        self.advance()?;
        let name = self.name(value)?;
        let pattern = self.text()?;
        let mut escape = None;
        if self.take(&Token::Word(Word::Escape))? {
            let text = self.text()?;
            let mut chars = text.chars();
            escape = chars.next();
            if escape.is_none() || chars.next().is_some() {
                return self.fail("ESCAPE needs exactly one character");
            }
        }
        Ok(Expression::Like {
            name,
            pattern,
            escape,
        })
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        while let Token::Operator(how @ (Operator::Plus | Operator::Minus)) = self.token {
            self.advance()?;
            let right = self.product()?;
            left = self.arithmetic(how, left, right)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.sign()?;
        while let Token::Operator(how @ (Operator::Times | Operator::Over)) = self.token {
            self.advance()?;
            let right = self.sign()?;
            left = self.arithmetic(how, left, right)?;
        }
        Ok(left)
    }

    fn arithmetic(&mut self, how: Operator, left: Expression, right: Expression) -> Parsed {
        Ok(Expression::Arithmetic(
            how,
            Box::new(self.number(left)?),
            Box::new(self.number(right)?),
        ))
    }

    fn sign(&mut self) -> Parsed {
        let Token::Operator(how @ (Operator::Plus | Operator::Minus)) = self.token else {
            return self.atom();
        };
        self.advance()?;
        let value = self.deeper(Parser::sign)?;
        let value = self.number(value)?;
        Ok(match (how, value) {
            (Operator::Plus, value) => value,
            (_, Expression::Integer(value)) => Expression::Integer(-value),
            (_, Expression::Float(value)) => Expression::Float(-value),
            (_, value) => Expression::Negative(Box::new(value)),
        })
    }

    fn atom(&mut self) -> Parsed {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return self.fail("it has too many parts");
        }
        let atom = match &mut self.token {
            Token::Name(name) => Expression::Name((*name).into()),
            Token::Text(text) => Expression::Text(std::mem::take(text)),
            Token::Integer(value) => Expression::Integer(*value),
            Token::Float(value) => Expression::Float(*value),
            Token::Word(Word::True) => Expression::Bool(true),
            Token::Word(Word::False) => Expression::Bool(false),
            Token::Open => {
                self.advance()?;
                let inner = self.deeper(Parser::or)?;
                self.expect(&Token::Close, "a parenthesis does not close")?;
                return Ok(inner);
            }
            Token::End => return self.fail("it ends too early"),
            _ => return self.fail("a name, a value or a parenthesis must stand here"),
        };
        self.advance()?;
        Ok(atom)
    }

    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth == DEPTH_MAX {
            return self.fail("it is nested too deeply");
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn condition(&self, expression: Expression) -> Parsed {
        if can_be_true(&expression) {
            Ok(expression)
        } else {
            self.fail("a condition must stand before this")
        }
    }

    fn number(&self, expression: Expression) -> Parsed {
        use Expression::*;
        match expression {
            Name(_) | Integer(_) | Float(_) | Arithmetic(..) | Negative(_) => Ok(expression),
            _ => self.fail("a number must stand before this"),
        }
    }

    fn name(&self, expression: Expression) -> Result<Box<str>, SelectorError> {
        match expression {
            Expression::Name(name) => Ok(name),
            _ => self.fail("IN, LIKE and IS NULL need the name of a header"),
        }
    }

    fn text(&mut self) -> Result<Box<str>, SelectorError> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return self.fail("it has too many parts");
        }
        match &mut self.token {
            Token::Text(text) => {
                let text = std::mem::take(text);
                self.advance()?;
                Ok(text)
            }
            _ => self.fail("a text in single quotes must stand here"),
        }
    }

    fn take(&mut self, token: &Token<'_>) -> Result<bool, SelectorError> {
        let found = self.token == *token;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, token: &Token<'_>, what: &'static str) -> Result<(), SelectorError> {
        if self.take(token)? {
            Ok(())
        } else {
            self.fail(what)
        }
    }

    fn advance(&mut self) -> Result<(), SelectorError> {
        (self.at, self.token) = self.tokens.next()?;
        Ok(())
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, SelectorError> {
        Err(SelectorError { at: self.at, what })
    }
}

fn negate(negated: bool, expression: Expression) -> Expression {
    if negated {
        Expression::Not(Box::new(expression))
    } else {
        expression
    }
}

/// Whether a message can satisfy it: a comparison, or something that may hold TRUE.
fn can_be_true(expression: &Expression) -> bool {
    use Expression::*;
    !matches!(
        expression,
        Text(_) | Integer(_) | Float(_) | Arithmetic(..) | Negative(_)
    )
}
