//! From tokens to a tree, one function per line of the grammar.

use crate::token::{Token, Tokens, Word};
use crate::{
    BYTES_MAX, Comparison, DEPTH_MAX, Expression, Field, FilterError, Operator, PARTS_MAX, Pattern,
};

/// Reads all of `text` as a condition.
pub(super) fn condition(text: &str) -> Result<Expression, FilterError> {
    if text.len() > BYTES_MAX {
        return Err(FilterError {
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
        Token::End => Err(FilterError {
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

type Parsed = Result<Expression, FilterError>;

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
            let start = self.at;
            let right = self.sum()?;
            check_kinds(how, &left, &right).map_err(|what| FilterError { at: start, what })?;
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
        let field = self.name(value)?;
        let start = self.at;
        let text = self.text()?;
        let mut escape = None;
        if self.take(&Token::Word(Word::Escape))? {
            let escapes = self.text()?;
            let mut chars = escapes.chars();
            escape = chars.next();
            if escape.is_none() || chars.next().is_some() {
                return self.fail("ESCAPE needs exactly one character");
            }
        }
        match Pattern::new(&text, escape) {
            Some(pattern) => Ok(Expression::Like { field, pattern }),
            None => Err(FilterError {
                at: start,
                what: "nothing follows the character of ESCAPE in the pattern",
            }),
        }
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
            Token::Name(name) => match Field::of(name) {
                Some(field) => Expression::Name(field),
                None => return self.fail("no field of a message has this name"),
            },
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

    fn name(&self, expression: Expression) -> Result<Field, FilterError> {
        match expression {
            Expression::Name(field) => Ok(field),
            _ => self.fail("IN, LIKE and IS NULL need a name"),
        }
    }

    fn text(&mut self) -> Result<Box<str>, FilterError> {
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

    fn take(&mut self, token: &Token<'_>) -> Result<bool, FilterError> {
        let found = self.token == *token;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, token: &Token<'_>, what: &'static str) -> Result<(), FilterError> {
        if self.take(token)? {
            Ok(())
        } else {
            self.fail(what)
        }
    }

    fn advance(&mut self) -> Result<(), FilterError> {
        (self.at, self.token) = self.tokens.next()?;
        Ok(())
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, FilterError> {
        Err(FilterError { at: self.at, what })
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

/// Type of a value, as far as its text shows.
#[derive(PartialEq)]
enum OperandType {
    Unknown,
    Number,
    Text,
    Bool,
}

fn kind(expression: &Expression) -> OperandType {
    match expression {
        Expression::Name(_) => OperandType::Unknown,
        Expression::Text(_) => OperandType::Text,
        Expression::Integer(_)
        | Expression::Float(_)
        | Expression::Arithmetic(..)
        | Expression::Negative(_) => OperandType::Number,
        _ => OperandType::Bool,
    }
}

/// Whether a comparison can be true of any message.
fn check_kinds(how: Comparison, left: &Expression, right: &Expression) -> Result<(), &'static str> {
    let (left, right) = (kind(left), kind(right));
    let is_order = !matches!(how, Comparison::Equal | Comparison::NotEqual);
    if is_order
        && [&left, &right]
            .iter()
            .any(|it| matches!(it, OperandType::Text | OperandType::Bool))
    {
        return Err("only numbers are less or greater");
    }
    if left != right && left != OperandType::Unknown && right != OperandType::Unknown {
        return Err("values of different kinds are never equal");
    }
    Ok(())
}
